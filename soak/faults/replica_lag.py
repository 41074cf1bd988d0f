"""The replica receives what its primary writes, and does not show it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from soak.errors import ServerUnreachableError
from soak.faults.fault import Fault
from soak.testbed.postgres import PostgresServer

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed

_CATCH_UP_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.02


class ReplicaLag(Fault):
    """Replay on the replica stands still, as behind a long query or on an overloaded disk."""

    name = "replica_lag"
    kind = "replica_lag"
    description = "The replica shows nothing newer until it is healed; reads from it are stale, and nothing is lost."
    targets = ("postgres-replica",)

    async def inject(self, bed: LocalTestbed, target: str) -> None:
        replica = _postgres(bed, target)
        await replica.ask("select pg_wal_replay_pause()::text as paused")
        # Asking is not yet stopping: what is being replayed is finished first.
        await _until(replica, "select (pg_get_wal_replay_pause_state() = 'paused')::text as holds", "pause")

    async def heal(self, bed: LocalTestbed, target: str) -> None:
        replica = _postgres(bed, target)
        await replica.ask("select case when pg_is_in_recovery() then pg_wal_replay_resume()::text end as resumed")
        now = await _postgres(bed, "postgres").ask("select pg_current_wal_lsn()::text as position")
        reached = f"pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '{now['position']}') >= 0"
        await _until(replica, f"select (not pg_is_in_recovery() or {reached})::text as holds", "catch up")


def _postgres(bed: LocalTestbed, target: str) -> PostgresServer:
    server = bed.servers[target]
    if not isinstance(server, PostgresServer):
        raise TypeError(server)
    return server


async def _until(server: PostgresServer, question: str, what: str) -> None:
    deadline = time.monotonic() + _CATCH_UP_SECONDS_MAX
    while (await server.ask(question)).get("holds") != "true":
        if time.monotonic() >= deadline:
            raise ServerUnreachableError(
                f"{server.title} did not {what} within {_CATCH_UP_SECONDS_MAX:.0f} s; see its log {server.log_path}"
            )
        await asyncio.sleep(_POLL_SECONDS)
