"""PostgreSQL as a local process: a primary, and a streaming replica of it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from soak.errors import ServerUnreachableError, UsageError
from soak.testbed import process
from soak.testbed.ports import HOST
from soak.testbed.server import Server, StillLoadingError
from soak.testbed.state import Pinned, write_whole

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping

    from soak.testbed.account import Account

USER = "soak"
DATABASE = "postgres"
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
OURS = frozenset({"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file", "include"})
"""Settings that no option may replace."""
_ANSWER_SECONDS_MAX = 2.0
_TOOL_SECONDS_MAX = 120.0
_STREAMING_SECONDS_MAX = 10.0

# Durable as in production. In the file, not on the command line, so that a fault may change it by a reload.
_SETTINGS = {
    "listen_addresses": f"'{HOST}'",
    "unix_socket_directories": "''",
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
    """A primary in a folder of its own, run by an unprivileged user where we are root."""

    # Immediate: everything acknowledged is in the synced log and is recovered at the next start.
    death_signal = signal.SIGQUIT
    # Fast: disconnects clients, writes a checkpoint.
    stop_signal = signal.SIGINT

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        *,
        fresh: bool,
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
        home: Path,
        programs: Path,
        account: Account | None,
        version: int,
    ) -> None:
        super().__init__(kind, folder, pinned, fresh=fresh, on_spawn=on_spawn, options=options)
        self.title = f"PostgreSQL {version} for {kind}"
        self.home = home
        """The folder that `data` is in: `folder`, or a place elsewhere that the account can reach."""
        self._programs = programs
        self._account = account
        self._version = version

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.pinned.password}@{HOST}:{self.public_port}/{DATABASE}?sslmode=disable"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def working_folder(self) -> Path:
        return self.data

    async def prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            await self.create()
        self._check_version()
        # No process works in this folder any more (strays were ended), so its pid, perhaps given to another
        # process since, must not keep the server from starting.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self._write_owned(self.data / "postgresql.conf", self._settings())

    def spawn(self) -> subprocess.Popen[bytes]:
        return self._run(["postgres", "-D", self.data], self.environment)

    async def create(self) -> None:
        """Make a new database cluster."""
        password_file = self.home / "password"
        self._write_owned(password_file, self.pinned.password + "\n")
        try:
            await self.fill(
                lambda folder: [
                    "initdb",
                    "-D",
                    folder,
                    "-U",
                    USER,
                    f"--pwfile={password_file}",
                    *_INITDB_OPTIONS,
                ]
            )
        finally:
            password_file.unlink()

    async def fill(
        self, command: Callable[[Path], list[str | Path]], environment: Mapping[str, str] | None = None
    ) -> None:
        """Let a tool fill a new data folder, which takes its place only when the tool has succeeded."""
        unfinished = self.home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if self._account is not None:
            self._account.own(unfinished)
        await self._tool(command(unfinished), environment or {})
        unfinished.rename(self.data)

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
            connection = await asyncpg.connect(
                host=HOST,
                port=self.port,
                user=USER,
                password=self.pinned.password,
                database=DATABASE,
                ssl=False,
            )
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

    def _settings(self) -> str:
        options = {name: _quoted(value) for name, value in self.options.items()}
        settings = {**_SETTINGS, **options, "port": str(self.port)}
        return "".join(f"{name} = {value}\n" for name, value in settings.items())

    def _check_version(self) -> None:
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise UsageError(
                f"{self.data} is no PostgreSQL data folder ({error.strerror}); choose another data folder"
            ) from error
        if found != str(self._version):
            raise UsageError(
                f"{self.data} holds data of PostgreSQL {found}, which PostgreSQL {self._version} "
                "cannot read; choose another data folder"
            )

    def _write_owned(self, path: Path, text: str) -> None:
        write_whole(path, text.encode(), owner=self._account)

    def _run(self, command: list[str | Path], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        return process.spawn(
            [self._programs / "bin" / command[0], *command[1:]],
            log=self.log_path,
            cwd=Path("/"),  # the account may not be allowed into ours
            home=self.home,
            death_signal=self.death_signal,
            account=self._account,
            environment=environment,
        )

    async def _tool(self, command: list[str | Path], environment: Mapping[str, str]) -> None:
        start = self.log_path.stat().st_size if self.log_path.exists() else 0
        running = self._run(command, environment)
        try:
            await process.ended_within(running, _TOOL_SECONDS_MAX)
        finally:
            await process.end(running, signal.SIGTERM, 1.0)
        if running.returncode != 0:
            words = process.last_words(self.log_path, start)
            raise ServerUnreachableError(f"{command[0]} failed for {self.kind}: {words} (log: {self.log_path})")


class PostgresReplica(PostgresServer):
    """A hot standby that streams from a primary."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        *,
        fresh: bool,
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
        home: Path,
        programs: Path,
        account: Account | None,
        version: int,
        primary: PostgresServer,
    ) -> None:
        super().__init__(
            kind,
            folder,
            pinned,
            fresh=fresh,
            on_spawn=on_spawn,
            options=options,
            home=home,
            programs=programs,
            account=account,
            version=version,
        )
        self._primary = primary

    async def create(self) -> None:
        address = f"host={HOST} port={self._primary.port} user={USER} sslmode=disable application_name={self.kind}"
        await self.fill(
            lambda folder: ["pg_basebackup", "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d", address],
            {"PGPASSWORD": self._primary.pinned.password},
        )

    async def start(self) -> None:
        if self.data.exists():
            try:
                await super().start()
            except ServerUnreachableError:
                pass
            else:
                if await self._belongs_to_primary() and await self._streams():
                    return
            # Its primary is another one by now, or has gone on too far: begin anew from a fresh copy.
            await self.stop()
            shutil.rmtree(self.data)
        await super().start()
        if not await self._streams():
            raise self._failure(f"{self.title} does not stream from its primary")

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
            await asyncio.sleep(0.02)
        return False


_INITDB_OPTIONS = ("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
