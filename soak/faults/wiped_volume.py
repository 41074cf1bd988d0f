"""The server comes back without its data."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import Fault
from soak.servers.bed import Testbed


class WipedVolume(Fault):
    """The volume is not there after a restart: never mounted, re-created, or cleaned by a job."""

    name = "wiped_volume"
    excuses = Excuse.CLEAN
    down = True
    description = "The server crashes and comes back with an empty data folder; no contract excuses what is gone."
    targets = ("redis", "postgres", "chroma", "http")

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        if target == "postgres" and "postgres-replica" in bed.servers:
            return "a replica streams from this server and could not follow a new one"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        server = bed.servers[target]
        await server.kill()
        await server.wipe()
