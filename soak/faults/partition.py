"""All packets between clients and server vanish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.checker.faults import Excuse
from soak.faults.networked import NetworkFault

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed


class Partition(NetworkFault):
    """A cable pulled, a firewall that drops: nobody is refused, nobody is told anything, and timeouts decide.

    Unlike in a pause the server works on; unlike in an outage no client is told that it failed.
    """

    name = "partition"
    kind = "partition"
    excuses = Excuse.NOTHING
    description = (
        "Packets vanish: connections stay open and silent, new ones are never answered; what was under way arrives "
        "afterwards, and nothing that was acknowledged may be lost."
    )

    async def inject(self, bed: Testbed, target: str) -> None:
        await self.proxy(bed, target).vanish()

    async def heal(self, bed: Testbed, target: str) -> None:
        proxy = bed.servers[target].proxy
        if proxy is not None:
            await proxy.reappear()
