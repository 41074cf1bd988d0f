"""The server comes back from a snapshot alone."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisFault, makes_snapshots, writes_a_log
from soak.servers.servers import Servers


class RestartFromRdb(RedisFault):
    """A move by snapshot, as of an operator who brings data to another machine.

    The server saves as it ends, is started from what it saved, and turns its append-only file on again if it has one.
    """

    name = "restart_from_rdb"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "The server saves everything as it ends and comes back from that snapshot alone, also where it has an "
        "append-only file; nothing may be lost."
    )

    def hindrance(self, servers: Servers, target: str) -> str | None:
        server = self.redis(servers, target)
        if not writes_a_log(server) and not makes_snapshots(server):
            return f"{target} keeps nothing on disk; start it with save points or an append-only file"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        await self.redis(servers, target).shut_down(save=True)

    async def heal(self, servers: Servers, target: str) -> None:
        await self.redis(servers, target).start_again_from_snapshot()
