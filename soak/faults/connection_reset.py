"""All connections are cut once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.checker.faults import Excuse
from soak.faults.networked import NetworkFault

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed


class ConnectionReset(NetworkFault):
    """A load balancer that fails over, a firewall that forgets: everybody has to connect again, and can."""

    name = "connection_reset"
    kind = "connection_reset"
    excuses = Excuse.NOTHING
    description = (
        "All open connections are reset in the middle of what they do, and new ones succeed at once; "
        "nothing that was acknowledged may be lost, and nothing stored twice."
    )

    async def inject(self, bed: Testbed, target: str) -> None:
        self.proxy(bed, target).reset_connections()

    async def heal(self, bed: Testbed, target: str) -> None:
        """Nothing is left to heal: it is over as soon as it has happened."""
