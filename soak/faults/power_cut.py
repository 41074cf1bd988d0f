"""The machine under the server loses its power."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Fault
from soak.servers.servers import Servers


class PowerCut(Fault):
    """All processes end and with them the page cache: only what the server has synced is there afterwards."""

    name = "power_cut"
    excuses = Excuse.POWER
    promotes = Promotion.NONE
    down = True
    description = "The server dies and everything it had not synced is lost, as when its machine loses its power."

    needs = "the shim under the server (a C compiler), or a file system of its own (root)"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if servers.nodes[target].power is None:
            return servers.no_power_cuts or servers.nodes[target].backend.no_power_cut
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].cut_power()
