"""Nobody reaches the server, which is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.checker.faults import Excuse
from soak.faults.networked import NetworkFault

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed


class Outage(NetworkFault):
    """Open connections are reset and new ones refused."""

    name = "outage"
    kind = "outage"
    excuses = Excuse.NOTHING
    description = "All connections are reset and new ones refused; nothing that was acknowledged may be lost."

    async def inject(self, bed: Testbed, target: str) -> None:
        proxy = self.proxy(bed, target)
        await proxy.refuse()
        proxy.reset_connections()

    async def heal(self, bed: Testbed, target: str) -> None:
        proxy = bed.servers[target].proxy
        if proxy is not None:
            await proxy.accept()
