"""PgBouncer before a PostgreSQL, started by soak or given: a process of this machine that keeps nothing.

What one must know before touching it:

- It refuses to run as root, as PostgreSQL does, and runs as the same account.
- Clients log in at it with the password of the PostgreSQL behind it, which stands in its list of users; with that it
  logs in there, too.
- It says of itself whether it is up on its console, the database `pgbouncer`, which answers simple queries only. The
  PostgreSQL behind it may be away at that moment.
- It does not look for the primary of a group itself. We do, as the callbacks of a Patroni do: we write the new primary
  into its settings and have them read.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import asyncpg

from soak.errors import UsageError
from soak.hosts import HostPort, each_host, hosts_of
from soak.proc.files import write_whole
from soak.proc.spawn import Running
from soak.servers.exchange import PostgresExchange
from soak.servers.kinds import PGBOUNCER, POSTGRES, PoolMode, ServerKind
from soak.servers.ports import HOST
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.server import Server
from soak.servers.state import Pinned
from soak.servers.unprivileged import Account

CONSOLE = PGBOUNCER.name
"""The database that is its own console."""
PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin")
"""Where packages put it; not every user has the first two in PATH."""
CLIENTS_MAX = 1000
POOL_SIZES = {PoolMode.TRANSACTION: 20, PoolMode.SESSION: 100}
"""Backends that it keeps. 20 is its own default; in session mode each client holds one while it is connected."""
_POSTGRES_PORT = 5432
_LOOK_SECONDS = 1.0
_ANSWER_SECONDS_MAX = 2.0
_TLS_OPTIONS = {
    "sslmode": "server_tls_sslmode",
    "sslrootcert": "server_tls_ca_file",
    "sslcert": "server_tls_cert_file",
    "sslkey": "server_tls_key_file",
}
_TIMELINE = "select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"


class Behind(NamedTuple):
    """The PostgreSQL behind it."""

    url: str
    hosts: tuple[HostPort, ...]
    user: str
    password: str
    database: str

    @classmethod
    def at(cls, url: str) -> Behind:
        """Take its address apart; raises `UsageError` if that holds no login, which clients of the pooler need."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if not user or not password:
            raise UsageError(
                "pgbouncer lets clients in with the login of the PostgreSQL behind it, and its address holds none; "
                "write user and password into servers.postgres"
            )
        return cls(url, hosts_of(url), user, password, unquote(parts.path.lstrip("/")) or user)

    def address(self, port: int, database: str | None = None) -> str:
        """Return the address of the pooler at this port."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"postgresql://{login}@{HOST}:{port}/{quote(database or self.database, safe='')}?sslmode=disable"

    def tls(self) -> dict[str, str]:
        """Return the settings with which the pooler connects as the address says."""
        options = parse_qs(urlsplit(self.url).query)
        return {setting: options[name][-1] for name, setting in _TLS_OPTIONS.items() if name in options}

    async def primary(self) -> HostPort | None:
        """Return the host that takes writes; of two that do, the one of the later timeline. None if none answers."""
        timelines = await asyncio.gather(*map(_timeline, each_host(self.url)))
        found = [(timeline, number) for number, timeline in enumerate(timelines) if timeline is not None]
        return self.hosts[max(found)[1]] if found else None


async def _timeline(url: str) -> str | None:
    """Return the timeline of a primary; None of a standby, or if there is no answer."""
    refused = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)  # one no primary is, too
    with contextlib.suppress(*refused, OSError, TimeoutError):
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            connection = await asyncpg.connect(url, statement_cache_size=0)
            try:
                return str(await connection.fetchval(_TIMELINE))
            finally:
                connection.terminate()
    return None


def program() -> Path:
    """Return the path of the program; raises `UsageError` that says how to get it."""
    found = shutil.which(PGBOUNCER.name) or shutil.which(PGBOUNCER.name, path=":".join(PLACES))
    if found is None:
        raise UsageError(
            "pgbouncer is not installed on this machine; install it (Debian and Ubuntu: apt install pgbouncer), "
            "or leave out --pgbouncer"
        )
    return Path(found)


def through_pooler(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses as clients use them: that of the pooler, where one is before the PostgreSQL."""
    if PGBOUNCER.name not in addresses:
        return dict(addresses)
    return {**addresses, POSTGRES.name: addresses[PGBOUNCER.name]}


class PgbouncerServer(Server):
    """A pooler. It has no data, so there is nothing that its end could take."""

    exchange = PostgresExchange

    def __init__(self, kind: ServerKind, pinned: Pinned, pooler: PgbouncerProcess, *, fresh: bool) -> None:
        super().__init__(kind, pinned, pooler, fresh=fresh)
        self._pooler = pooler

    def address_at(self, port: int) -> str:
        return self._pooler.behind().address(port)

    async def answers(self) -> bool:
        return await self._pooler.obeys("SHOW VERSION")

    async def _until_death(self) -> str:
        following = asyncio.create_task(self._pooler.follow())
        try:
            return await super()._until_death()
        finally:
            following.cancel()

    async def read_configuration(self) -> dict[str, str]:
        return dict(self.options)

    async def telemetry(self) -> dict[str, str]:
        """Return nothing: what counts is what the PostgreSQL behind it says."""
        return {}


class PgbouncerProcess(ProcessBackend):
    """One pgbouncer before one PostgreSQL, or before the primary of a group."""

    # The kernel's signal when we are gone. It keeps nothing, and newer versions wait for their clients on others.
    death_signal = signal.SIGKILL

    def __init__(
        self,
        site: ProcessSite,
        *,
        mode: PoolMode,
        address: Callable[[], str],
        account: Account | None,
        logins: Iterable[str] = (),
    ) -> None:
        """Choose how long a client keeps a backend; the PostgreSQL is where its address says at each start.

        Other users than the one of that address are let in by their `logins`.
        """
        options = {"pool_mode": mode.value, "default_pool_size": str(POOL_SIZES[mode])}
        super().__init__(f"PgBouncer in {mode} mode for {site.name}", site, options)
        self._program = program()
        self._address = address
        self._account = account
        self._logins = [login.partition(":")[::2] for login in logins]
        self._primary: HostPort | None = None
        """Where it leads."""
        # Safe: it lets transactions end. A session ends when its client leaves, and none does.
        self.stop_signal = signal.SIGINT if mode is PoolMode.TRANSACTION else signal.SIGTERM

    @property
    def _settings_path(self) -> Path:
        return self.working_folder / "pgbouncer.ini"

    @property
    def _users_path(self) -> Path:
        return self.working_folder / "users.txt"

    async def prepare(self) -> None:
        self.working_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._account is not None:
            self._account.own(self.working_folder)
        behind = self.behind()
        self._primary = await self._primary_of(behind) or self._primary or behind.hosts[0]
        users = [(behind.user, behind.password), *self._logins]
        lines = "".join(f'"{_quoted(user)}" "{_quoted(password)}"\n' for user, password in users)
        write_whole(self._users_path, lines.encode(), owner=self._account)
        self._write_settings(behind, self._primary)

    def behind(self) -> Behind:
        """Return the PostgreSQL behind it."""
        return Behind.at(self._address())

    async def _primary_of(self, behind: Behind) -> HostPort | None:
        return await behind.primary() if len(behind.hosts) > 1 else behind.hosts[0]

    def _write_settings(self, behind: Behind, primary: HostPort) -> None:
        settings = {
            "listen_addr": HOST,
            "listen_port": str(self.pinned.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(self._users_path),
            "admin_users": behind.user,
            "max_client_conn": str(CLIENTS_MAX),
            # A PostgreSQL that is back is tried again at once, not after fifteen seconds.
            "server_login_retry": "1",
            # A line for each connection would fill the log in a fault.
            "log_connections": "0",
            "log_disconnections": "0",
            **behind.tls(),
            **self.options,
        }
        text = f"[databases]\n{behind.database} = host={primary.host} port={primary.port or _POSTGRES_PORT}\n\n"
        text += "[pgbouncer]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())
        write_whole(self._settings_path, text.encode(), owner=self._account)

    async def follow(self) -> None:
        """Lead to the primary of a group, whichever node that is; for ever, or not at all where there is one server."""
        behind = self.behind()
        while len(behind.hosts) > 1:
            await asyncio.sleep(_LOOK_SECONDS)
            found = await behind.primary()
            if found is not None and found != self._primary:
                self._write_settings(behind, found)
                # Connections to the old one are closed as soon as their client has no transaction, or has left.
                if await self.obeys("RELOAD") and await self.obeys("RECONNECT"):
                    self._primary = found

    async def obeys(self, command: str) -> bool:
        """Give it a command; whether it says that this is done."""
        try:
            async with asyncio.timeout(self.answer_seconds_max):
                connection = await asyncpg.connect(
                    self.behind().address(self.pinned.port, CONSOLE), statement_cache_size=0
                )
                try:
                    await connection.execute(command)
                finally:
                    connection.terminate()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return False
        return True

    async def spawn(self) -> Running:
        return await self.start_program([self._program, self._settings_path], home=self.home, account=self._account)


def _quoted(text: str) -> str:
    """Return a text as its list of users wants it between quotes."""
    return text.replace('"', '""')
