"""What faults of PostgreSQL have in common: asking a server until it says yes."""

from __future__ import annotations

import asyncio
import time

from soak.errors import ServerUnreachableError
from soak.servers.bed import Testbed
from soak.servers.postgres import PostgresServer

AGREE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.02

IS_PRIMARY = "not pg_is_in_recovery()"
STREAMS = "pg_is_in_recovery() and exists (select from pg_stat_wal_receiver where status = 'streaming')"


def postgres(bed: Testbed, target: str) -> PostgresServer:
    server = bed.servers[target]
    if not isinstance(server, PostgresServer):
        raise TypeError(server)
    return server


async def holds(server: PostgresServer, condition: str) -> bool:
    """Ask the server whether this is so."""
    return (await server.ask(f"select ({condition})::text as holds")).get("holds") == "true"


async def until_holds(server: PostgresServer, condition: str, what: str) -> None:
    """Ask until it is so; raises `ServerUnreachableError` if it never is."""
    deadline = time.monotonic() + AGREE_SECONDS_MAX
    while not await holds(server, condition):
        if time.monotonic() >= deadline:
            raise ServerUnreachableError(
                f"{server.title} did not {what} within {AGREE_SECONDS_MAX:.0f} s; see its log {server.log_path}"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def until_caught_up(primary: PostgresServer, replica: PostgresServer) -> None:
    """Wait until a replica shows all that its primary had written when this was called."""
    now = (await primary.ask("select pg_current_wal_lsn()::text as position"))["position"]
    reached = f"pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '{now}') >= 0"
    await until_holds(replica, f"not pg_is_in_recovery() or {reached}", "catch up")
