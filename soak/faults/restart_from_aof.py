"""The server comes back from its append-only file alone."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.on_redis import RedisFault, writes_a_log
from soak.servers.bed import Testbed


class RestartFromAof(RedisFault):
    """A stop that writes no snapshot, in good order: the append-only file is complete, and all there is."""

    name = "restart_from_aof"
    excuses = Excuse.CLEAN
    down = True
    description = (
        "The server is stopped in good order without a snapshot and comes back from its append-only file; "
        "nothing may be lost."
    )

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        if not writes_a_log(self.redis(bed, target)):
            return f"{target} keeps no append-only file; start it with appendonly yes"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        await self.redis(bed, target).shut_down(save=False)
