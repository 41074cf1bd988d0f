"""The server comes back from its append-only file alone."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisFault, writes_a_log
from soak.servers.servers import Servers


class RestartFromAof(RedisFault):
    """A clean stop that writes no snapshot: the append-only file is complete, and all there is."""

    name = "restart_from_aof"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "The server is stopped cleanly without a snapshot and comes back from its append-only file; "
        "nothing may be lost."
    )

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if not writes_a_log(self.redis(servers, target)):
            return f"{target} keeps no append-only file; start it with appendonly yes"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        await self.redis(servers, target).shut_down(save=False)
