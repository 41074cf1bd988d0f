"""Everything takes longer to arrive."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import NetworkFault
from soak.servers.proxy import Proxy

SECONDS_DEFAULT = 0.2


class Latency(NetworkFault):
    """Another region, a saturated router: as much arrives as before, later."""

    name = "latency"
    excuses = Excuse.NOTHING
    description = (
        "Every byte arrives a fifth of a second later in each direction; "
        "clients that wait shorter than that may see timeouts, and nothing may be lost."
    )

    def __init__(self, seconds: float = SECONDS_DEFAULT) -> None:
        """Delay by so much in each direction."""
        self.seconds = seconds

    async def begin(self, proxy: Proxy) -> None:
        proxy.delay(self.seconds)

    async def end(self, proxy: Proxy) -> None:
        proxy.delay(0.0)
