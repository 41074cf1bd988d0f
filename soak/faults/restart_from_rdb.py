"""The server comes back from a snapshot alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.faults.on_redis import RedisFault, makes_snapshots, writes_a_log

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed


class RestartFromRdb(RedisFault):
    """Where snapshots are all there is, a crash. Where there is an append-only file too, a move by snapshot.

    The latter is what an operator does who brings data to another machine: the server saves as it ends, is started
    from what it saved, and turns its append-only file on again.
    """

    name = "restart_from_rdb"
    kind = "restart_from_rdb"
    description = (
        "The server comes back from its snapshot alone; where it has no append-only file it had crashed, and all "
        "since its last snapshot is lost; where it has one it had saved everything first, and nothing may be lost."
    )

    def unavailable(self, bed: Testbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is not None:
            return reason
        server = self.redis(bed, target)
        if not writes_a_log(server) and not makes_snapshots(server):
            return f"{target} keeps nothing on disk; start it with save points or an append-only file"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        server = self.redis(bed, target)
        if writes_a_log(server):
            await server.shut_down(save=True)
        else:
            await server.kill()

    async def heal(self, bed: Testbed, target: str) -> None:
        await self.redis(bed, target).start_again_from_snapshot()
