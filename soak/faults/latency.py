"""Everything takes longer to arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.checker.faults import Excuse
from soak.faults.networked import NetworkFault

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed

SECONDS_DEFAULT = 0.2


class Latency(NetworkFault):
    """Another region, a saturated router: as much arrives as before, later."""

    name = "latency"
    kind = "latency"
    excuses = Excuse.NOTHING
    description = (
        "Every byte arrives a fifth of a second later in each direction; "
        "clients that wait shorter than that may see timeouts, and nothing may be lost."
    )

    def __init__(self, seconds: float = SECONDS_DEFAULT) -> None:
        """Delay by so much in each direction."""
        self.seconds = seconds

    async def inject(self, bed: Testbed, target: str) -> None:
        self.proxy(bed, target).delay(self.seconds)

    async def heal(self, bed: Testbed, target: str) -> None:
        proxy = bed.servers[target].proxy
        if proxy is not None:
            proxy.delay(0.0)
