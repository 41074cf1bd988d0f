"""A PostgreSQL server, wherever it runs: a primary, and a streaming replica of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncpg

from soak.errors import ServerUnreachableError
from soak.servers.backend import ServerBackend, StillLoadingError
from soak.servers.exchange import PostgresExchange
from soak.servers.ports import HOST
from soak.servers.postgres_settings import DATABASE, USER
from soak.servers.server import Server
from soak.servers.state import Pinned

CONFIGURATION_READ = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "hot_standby",
    "max_connections",
    "server_version",
    "data_directory",
)
_ANSWER_SECONDS_MAX = 2.0
_STREAMING_SECONDS_MAX = 10.0
_STREAMING_POLL_SECONDS = 0.02

# Lag is a difference of positions: pg_stat_replication's replay_lag does not grow while replay is paused.
_TELEMETRY = """
with here as (select pg_is_in_recovery() as recovering)
select pg_postmaster_start_time()::text as pg_postmaster_start_time,
       recovering::text as pg_is_in_recovery,
       case when not recovering then pg_current_wal_lsn()::text end as pg_current_wal_lsn,
       case when recovering then pg_last_wal_receive_lsn()::text end as pg_last_wal_receive_lsn,
       case when recovering then pg_last_wal_replay_lsn()::text end as pg_last_wal_replay_lsn,
       case when recovering then pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
            else (select max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) from pg_stat_replication)
       end::text as replication_lag_bytes,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('fsync') as fsync
  from here
"""


class PostgresServer(Server):
    """A primary."""

    exchange = PostgresExchange

    def address(self, port: int) -> str:
        return f"postgresql://{USER}:{self.pinned.password}@{HOST}:{port}/{DATABASE}?sslmode=disable"

    @property
    def data(self) -> Path:
        return self.working_folder

    async def answers(self) -> bool:
        try:
            return bool(await self._ask("select 1"))
        except asyncpg.CannotConnectNowError as error:
            raise StillLoadingError from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return False

    async def read_configuration(self) -> dict[str, str]:
        wanted = dict.fromkeys((*CONFIGURATION_READ, *self.options))
        names = ", ".join(f"current_setting('{name}') as \"{name}\"" for name in wanted)
        return await self.ask(f"select {names}")

    async def telemetry(self) -> dict[str, str]:
        return await self.ask(_TELEMETRY)

    async def _ask(self, query: str) -> dict[str, str]:
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            # No statement of ours is prepared: a pooler in between would know nothing of it.
            connection = await asyncpg.connect(self.address(self.port), statement_cache_size=0)
            try:
                row = await connection.fetchrow(query)
            finally:
                connection.terminate()
        return {} if row is None else {name: str(value) for name, value in row.items() if value is not None}

    async def ask(self, query: str) -> dict[str, str]:
        """Return the first row of a query as texts; raises `ServerUnreachableError` if there is no answer."""
        try:
            return await self._ask(query)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); "
                f"see its log {self.log_path}"
            ) from error


class PostgresReplica(PostgresServer):
    """A hot standby that streams from a primary."""

    def __init__(
        self,
        kind: str,
        pinned: Pinned,
        vessel: ServerBackend,
        *,
        fresh: bool,
        primary: PostgresServer,
    ) -> None:
        super().__init__(kind, pinned, vessel, fresh=fresh)
        self._primary = primary

    async def start(self) -> None:
        had_data = not self._fresh
        try:
            await super().start()
        except ServerUnreachableError:
            if not had_data:
                raise
        else:
            if await self._belongs_to_primary() and await self._streams():
                return
            if not had_data:
                raise await self.failure(f"{self.title} does not stream from its primary")
        # Its primary is another one by now, or has gone on too far: begin anew from a fresh copy.
        await self.stop()
        await self.wipe()
        await super().start()
        if not await self._streams():
            raise await self.failure(f"{self.title} does not stream from its primary")

    async def _belongs_to_primary(self) -> bool:
        query = "select system_identifier::text from pg_control_system()"
        return await self.ask(query) == await self._primary.ask(query)

    async def _streams(self) -> bool:
        deadline = time.monotonic() + _STREAMING_SECONDS_MAX
        while time.monotonic() < deadline:
            row = await self.ask(
                "select (pg_is_in_recovery() and exists "
                "(select from pg_stat_wal_receiver where status = 'streaming'))::text as streams"
            )
            if row["streams"] == "true":
                return True
            await asyncio.sleep(_STREAMING_POLL_SECONDS)
        return False
