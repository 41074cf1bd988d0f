"""PgBouncer before a PostgreSQL that soak starts: a process of this machine that keeps nothing.

What one must know before touching it:

- It refuses to run as root, as PostgreSQL does, and runs as the same account.
- Clients log in at it with the password of the PostgreSQL behind it, which stands in its list of users; with that it
  logs in there, too.
- It says of itself whether it is up on its console, the database `pgbouncer`, which answers simple queries only. The
  PostgreSQL behind it may be away at that moment.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import asyncpg

from soak.errors import UsageError
from soak.hosts import hosts_of
from soak.proc.files import write_whole
from soak.proc.spawn import Process
from soak.servers.exchange import PostgresExchange
from soak.servers.kinds import PGBOUNCER, POSTGRES, PoolMode
from soak.servers.ports import HOST
from soak.servers.postgres import DATABASE, USER
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.server import Server
from soak.servers.unprivileged import Account

CONSOLE = PGBOUNCER.name
"""The database that is its own console."""
PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin")
"""Where packages put it; not every user has the first two in PATH."""
CLIENTS_MAX = 1000
POOL_SIZES = {PoolMode.TRANSACTION: 20, PoolMode.SESSION: 100}
"""Backends that it keeps. 20 is its own default; in session mode each client holds one while it is connected."""


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

    def address_at(self, port: int) -> str:
        return _address(self.pinned.password, port, DATABASE)

    async def answers(self) -> bool:
        try:
            async with asyncio.timeout(self.backend.answer_seconds_max):
                connection = await asyncpg.connect(
                    _address(self.pinned.password, self.port, CONSOLE), statement_cache_size=0
                )
                try:
                    await connection.execute("SHOW VERSION")
                finally:
                    connection.terminate()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return False
        return True

    async def read_configuration(self) -> dict[str, str]:
        return dict(self.options)

    async def telemetry(self) -> dict[str, str]:
        """Return nothing: what counts is what the PostgreSQL behind it says."""
        return {}


class PgbouncerProcess(ProcessBackend):
    """One pgbouncer before one PostgreSQL."""

    # The kernel's signal when we are gone. It keeps nothing, and newer versions wait for their clients on others.
    death_signal = signal.SIGKILL

    def __init__(
        self, site: ProcessSite, *, mode: PoolMode, addresses: Callable[[], Mapping[str, str]], account: Account | None
    ) -> None:
        """Choose how long a client keeps a backend; the PostgreSQL is where the addresses say at each start."""
        options = {"pool_mode": mode.value, "default_pool_size": str(POOL_SIZES[mode])}
        super().__init__(f"PgBouncer in {mode} mode for {site.name}", site, options)
        self._program = program()
        self._addresses = addresses
        self._account = account
        # Safe: it lets transactions end. A session ends when its client leaves, and none does.
        self.stop_signal = signal.SIGINT if mode is PoolMode.TRANSACTION else signal.SIGTERM

    @property
    def _settings_path(self) -> Path:
        return self.working_folder / "pgbouncer.ini"

    async def prepare(self) -> None:
        self.working_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._account is not None:
            self._account.own(self.working_folder)
        behind = self._addresses()[POSTGRES.name]
        hosts = hosts_of(behind)
        if len(hosts) != 1:
            raise UsageError("pgbouncer is put before one PostgreSQL, and this one has several addresses; leave it out")
        # Clients, and we, are let in with the password of the PostgreSQL, whatever was pinned when it was first made.
        self.pinned.password = unquote(urlsplit(behind).password or "")
        users = self.working_folder / "users.txt"
        write_whole(users, f'"{USER}" "{self.pinned.password}"\n'.encode(), owner=self._account)
        settings = {
            "listen_addr": HOST,
            "listen_port": str(self.pinned.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(users),
            "admin_users": USER,
            "max_client_conn": str(CLIENTS_MAX),
            # A PostgreSQL that is back is tried again at once, not after fifteen seconds.
            "server_login_retry": "1",
            # A line for each connection would fill the log in a fault.
            "log_connections": "0",
            "log_disconnections": "0",
            **self.options,
        }
        host, port = hosts[0]
        text = f"[databases]\n{DATABASE} = host={host} port={port}\n\n[pgbouncer]\n"
        text += "".join(f"{name} = {value}\n" for name, value in settings.items())
        write_whole(self._settings_path, text.encode(), owner=self._account)

    def spawn(self) -> Process:
        return self.start_program([self._program, self._settings_path], home=self.home, account=self._account)


def _address(password: str, port: int, database: str) -> str:
    return f"postgresql://{USER}:{password}@{HOST}:{port}/{database}?sslmode=disable"
