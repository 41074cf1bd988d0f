"""A PostgreSQL server, wherever it runs: a primary, and a streaming replica of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import asyncpg

from soak.errors import ServerUnreachableError
from soak.servers.backend import ServerBackend, StillLoadingError
from soak.servers.exchange import PostgresExchange
from soak.servers.inspect import inspect_server
from soak.servers.kinds import ServerKind
from soak.servers.ports import HOST
from soak.servers.server import HOLD_SECONDS_MAX, HeldConnection, Server
from soak.servers.state import Pinned
from soak.tasks import until

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
_SILENT = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_DURABILITY = ("synchronous_commit", "fsync")
"""Settings that a fault's telemetry has, too."""
_STREAMING_SECONDS_MAX = 10.0
_STREAMING_POLL_SECONDS = 0.02
_EXHAUST_SECONDS_MAX = 60.0
_PIECE_BYTES = 2**20
_EXHAUST_QUERY = (
    "with held as materialized (select repeat('x', {bytes}) || number as part from generate_series(1, {count}) number) "
    "select max(length(part))::text as longest from held"
)
"""Held in the memory of one session, which keeps it there."""

REPLICA_MARK = "standby.signal"
"""The file in a data folder that makes its server a replica."""
USER = "soak"
DATABASE = "postgres"
CHOSEN_BY_US = frozenset(
    {"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file", "include"}
)
"""Settings that no option may replace."""

# Durable as in production. In the file, not on the command line, so that a fault may change it by a reload.
_SETTINGS = {
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "max_wal_senders": "10",
    "wal_keep_size": "'512MB'",
    "hot_standby": "on",
    # By default a replica may take five seconds to notice that its primary is back.
    "wal_retrieve_retry_interval": "'100ms'",
    # Segments in the data folder, not in /dev/shm, where a killed server would leave them behind.
    "dynamic_shared_memory_type": "mmap",
    "logging_collector": "off",
    "timezone": "'UTC'",
}


class PostgresServer(Server):
    """A primary."""

    exchange = PostgresExchange

    def address_at(self, port: int) -> str:
        return f"postgresql://{USER}:{self.pinned.password}@{HOST}:{port}/{DATABASE}?sslmode=disable"

    async def answers(self) -> bool:
        try:
            return bool(await self._ask("select 1"))
        except asyncpg.CannotConnectNowError as error:
            raise StillLoadingError from error
        except (*_SILENT, OSError, TimeoutError):
            return False

    async def read_configuration(self) -> dict[str, str]:
        if not self.backend.is_ours:
            seconds = self.backend.answer_seconds_max
            return (await inspect_server(self.kind, self.own_url, timeout_seconds=seconds)).configuration
        wanted = dict.fromkeys((*CONFIGURATION_READ, *self.options))
        names = ", ".join(f"current_setting('{name}') as \"{name}\"" for name in wanted)
        return await self.ask(f"select {names}")

    async def telemetry(self) -> dict[str, str]:
        sample = await inspect_server(self.kind, self.own_url, timeout_seconds=self.backend.answer_seconds_max)
        durability = {name: sample.configuration[name] for name in _DURABILITY if name in sample.configuration}
        return {**sample.telemetry, **durability}

    async def read_limits(self) -> dict[str, str]:
        return await self.ask("select current_setting('max_connections') as max_connections")

    async def hold_connections(self, count: int) -> list[HeldConnection | None]:
        return await asyncio.gather(*(self._hold_connection() for _ in range(count)))

    async def _hold_connection(self) -> HeldConnection | None:
        try:
            connection = await asyncpg.connect(
                self.own_url,
                timeout=HOLD_SECONDS_MAX,
                server_settings={"application_name": "soak connection exhaustion"},
            )
        except (*_SILENT, OSError, TimeoutError):
            return None

        async def close() -> None:
            connection.terminate()

        return close

    async def survives_taking(self, size_bytes: int) -> bool:
        """Do so; the kernel kills the session that is largest, and with it all others."""
        query = _EXHAUST_QUERY.format(bytes=_PIECE_BYTES, count=size_bytes // _PIECE_BYTES)
        try:
            connection = await asyncpg.connect(self.own_url, timeout=_EXHAUST_SECONDS_MAX)
            try:
                await connection.execute(f"set work_mem = '{size_bytes // 1024}kB'")
                await connection.execute(query, timeout=_EXHAUST_SECONDS_MAX)
            finally:
                connection.terminate()
        except (asyncpg.PostgresConnectionError, ConnectionError):
            return False
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return True  # it refused, or is still at it
        return True

    async def _ask(self, query: str) -> dict[str, str]:
        async with asyncio.timeout(self.backend.answer_seconds_max):
            # No statement of ours is prepared: a pooler in between would know nothing of it.
            connection = await asyncpg.connect(self.own_url, statement_cache_size=0)
            try:
                row = await connection.fetchrow(query)
            finally:
                connection.terminate()
        return {} if row is None else {name: str(value) for name, value in row.items() if value is not None}

    async def ask(self, query: str) -> dict[str, str]:
        """Return the first row of a query as texts; raises `ServerUnreachableError` if there is no answer."""
        try:
            return await self._ask(query)
        except (*_SILENT, OSError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); "
                f"see its log {self.log_path}"
            ) from error


class PostgresReplica(PostgresServer):
    """A hot standby that streams from a primary."""

    def __init__(
        self,
        kind: ServerKind,
        pinned: Pinned,
        backend: ServerBackend,
        *,
        fresh: bool,
        primary: PostgresServer,
    ) -> None:
        super().__init__(kind, pinned, backend, fresh=fresh)
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
        # Its primary is another one by now, or has gone on too far: start over from a fresh copy.
        await self.stop()
        await self.wipe()
        await super().start()
        if not await self._streams():
            raise await self.failure(f"{self.title} does not stream from its primary")

    async def _belongs_to_primary(self) -> bool:
        query = "select system_identifier::text from pg_control_system()"
        return await self.ask(query) == await self._primary.ask(query)

    async def _streams(self) -> bool:
        return await until(self._is_streaming, _STREAMING_SECONDS_MAX, _STREAMING_POLL_SECONDS)

    async def _is_streaming(self) -> bool:
        row = await self.ask(
            "select (pg_is_in_recovery() and exists "
            "(select from pg_stat_wal_receiver where status = 'streaming'))::text as streams"
        )
        return row["streams"] == "true"


# Its configuration file --------------------------------------------------------------------------------------


def settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the same settings by name, without where the server lives."""
    return {name: value.strip("'") for name, value in {**_SETTINGS, **options}.items()}


def postgres_settings(options: Mapping[str, str], location: Mapping[str, str]) -> str:
    """Return the file: durable as in production, what the options say instead, and where the server lives."""
    quoted = {name: _quoted(value) for name, value in {**options, **location}.items()}
    return "".join(f"{name} = {value}\n" for name, value in {**_SETTINGS, **quoted}.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
