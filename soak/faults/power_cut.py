"""The machine under the server loses its power."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import Fault
from soak.servers.bed import Testbed


class PowerCut(Fault):
    """All processes end and with them the page cache: only what the server has synced is there afterwards."""

    name = "power_cut"
    excuses = Excuse.POWER
    down = True
    description = "The server dies and everything it had not synced is lost, as when its machine loses its power."
    targets = ("redis", "postgres", "postgres-replica", "chroma", "http")

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        if bed.servers[target].power is None:
            return bed.no_power_cuts or bed.servers[target].vessel.no_power_cut
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        await bed.servers[target].cut_power()
