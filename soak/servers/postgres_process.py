"""PostgreSQL as a local process, run by an unprivileged user where we are root."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from soak.errors import ServerUnreachableError, UsageError
from soak.proc import tree
from soak.proc.files import exchange, write_whole
from soak.proc.spawn import Running
from soak.servers import binaries, postgres_upgrade, versions
from soak.servers.ports import HOST
from soak.servers.postgres import USER, postgres_settings
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.strays import end_strays
from soak.servers.unprivileged import Account

_TOOL_SECONDS_MAX = 120.0
_INITDB_OPTIONS = ("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions")


class PostgresProcess(ProcessBackend):
    """A primary in a folder of its own."""

    # Immediate: everything acknowledged is in the synced log and is recovered at the next start.
    death_signal = signal.SIGQUIT
    # Fast: disconnects clients, writes a checkpoint.
    stop_signal = signal.SIGINT

    def __init__(
        self,
        site: ProcessSite,
        *,
        options: Mapping[str, str],
        install: Callable[[int], Path],
        account: Account | None,
        version: int,
    ) -> None:
        """Choose the version; `install` returns the folder of a version's programs, open to the account."""
        pinned = site.pinned.version
        self.version = version if pinned is None else versions.postgres_version(pinned).major
        super().__init__(f"PostgreSQL {self.version} for {site.name}", site, options)
        self._install = install
        self._programs = install(self.version)
        self._account = account

    @property
    def next_folder(self) -> Path:
        """Where an upgrade makes the new cluster; afterwards the old one, until it is removed."""
        return self.home / postgres_upgrade.NEXT_NAME

    async def prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if self.next_folder.exists():
            await self._settle_upgrade()
        if not self.working_folder.exists():
            await self.create()
        self._check_version()
        # No process works in this folder any more (strays were ended), so its pid, perhaps given to another
        # process since, must not keep the server from starting.
        (self.working_folder / "postmaster.pid").unlink(missing_ok=True)
        self._write_owned(self.working_folder / "postgresql.conf", postgres_settings(self.options, self._place()))

    async def spawn(self) -> Running:
        return await self._run(["postgres", "-D", self.working_folder], self.environment)

    async def create(self, *options: str) -> None:
        """Make a new database cluster."""
        with self._password_file() as secret:
            await self.fill(lambda folder: [*_initdb(folder, secret), *options])

    @contextlib.contextmanager
    def _password_file(self) -> Iterator[Path]:
        path = self.home / "password"
        self._write_owned(path, self.pinned.password + "\n")
        try:
            yield path
        finally:
            path.unlink()

    async def fill(
        self, command: Callable[[Path], list[str | Path]], environment: Mapping[str, str] | None = None
    ) -> None:
        """Let a tool fill a new data folder, which is used only when the tool has succeeded."""
        unfinished = self.home / "data.new"
        self._make_folder(unfinished)
        await self._tool(command(unfinished), environment or {})
        unfinished.rename(self.working_folder)

    # Another version ----------------------------------------------------------------------------------------

    def next_release(self) -> versions.ServerRelease:
        now = versions.ServerVersion("postgres", str(self.version))
        have = [
            versions.ServerRelease(versions.ServerVersion("postgres", str(one))) for one in binaries.POSTGRES_FOLDERS
        ]
        release = versions.next_release(now, have)
        if release is None:
            raise UsageError(f"{now.title} is the newest there is here; start an older one (--postgres 16)")
        return release

    async def upgrade(self) -> None:
        """Turn the data into the next version's with `pg_upgrade --link`; the old one comes back if that fails.

        The two clusters share their files from then on, and the first start of the new one changes them: until
        the folders have changed places, and no longer, the old cluster is as good as it was.
        """
        newer = self.next_release().version.major
        try:
            await self._make_next(newer)
            await self._run_upgrade(newer)
            await exchange_folders(self.working_folder, self.next_folder)
        finally:
            await self._settle_upgrade()

    async def _make_next(self, newer: int) -> None:
        programs = self._install(newer)
        checks = await asyncio.to_thread(postgres_upgrade.has_checksums, self._programs, self.working_folder)
        self._make_folder(self.next_folder)
        with self._password_file() as secret:
            # Clusters with and without checksums do not go together, and newer versions have them by default.
            options = postgres_upgrade.checksum_options(newer, wanted=checks)
            await self._tool([*_initdb(self.next_folder, secret), *options], {}, programs)

    async def _run_upgrade(self, newer: int) -> None:
        programs = self._install(newer)
        with postgres_upgrade.short_folder(self._account) as here:
            command = postgres_upgrade.command(
                self._programs, programs, self.working_folder, self.next_folder, sockets=here
            )
            password = {"PGPASSWORD": self.pinned.password}
            await self._tool(command, password, programs, cwd=here, seconds_max=postgres_upgrade.SECONDS_MAX)

    async def _settle_upgrade(self) -> None:
        """End an upgrade, wherever it stopped: the cluster that has the folder's name is the one that counts."""
        await self._end_strays()
        await asyncio.to_thread(postgres_upgrade.settle, self.working_folder, self.next_folder, self.folder)
        found = self._found_version()
        if found != str(self.version):
            self.become(int(found))
        await asyncio.to_thread(shutil.rmtree, self.next_folder, ignore_errors=True)

    def become(self, version: int) -> None:
        """Be another version from the next start on, and after every later start of ours."""
        self.version = version
        self.title = f"PostgreSQL {version} for {self._name}"
        self._programs = self._install(version)
        self.pinned.version = f"postgres-{version}"
        self._on_spawn()  # which writes down what is pinned

    async def _end_strays(self) -> None:
        await end_strays([], [self.working_folder, self.next_folder])

    def _make_folder(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        if self._account is not None:
            self._account.own(folder)

    def _place(self) -> dict[str, str]:
        return {"listen_addresses": HOST, "unix_socket_directories": "", "port": str(self.pinned.port)}

    def _check_version(self) -> None:
        found = self._found_version()
        if found != str(self.version):
            raise UsageError(
                f"{self.working_folder} holds data of PostgreSQL {found}, which PostgreSQL {self.version} "
                "cannot read; choose another data folder"
            )

    def _found_version(self) -> str:
        try:
            return (self.working_folder / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise UsageError(
                f"{self.working_folder} is no PostgreSQL data folder ({error.strerror}); choose another data folder"
            ) from error

    def _write_owned(self, path: Path, text: str) -> None:
        write_whole(path, text.encode(), owner=self._account)

    async def _run(
        self,
        command: list[str | Path],
        environment: Mapping[str, str] | None = None,
        programs: Path | None = None,
        cwd: Path | None = None,
    ) -> Running:
        return await self.start_program(
            [(programs or self._programs) / "bin" / command[0], *command[1:]],
            home=self.home,
            cwd=cwd or Path("/"),  # the account may not be allowed into ours
            account=self._account,
            environment=environment,
        )

    async def _tool(
        self,
        command: list[str | Path],
        environment: Mapping[str, str],
        programs: Path | None = None,
        *,
        cwd: Path | None = None,
        seconds_max: float = _TOOL_SECONDS_MAX,
    ) -> None:
        start = self.log_path.stat().st_size if self.log_path.exists() else 0
        running = await self._run(command, environment, programs, cwd)
        try:
            await tree.ended_within(running, seconds_max)
        finally:
            await tree.end(running, signal.SIGTERM, 1.0)
        if running.poll() != 0:
            words = tree.last_words(self.log_path, start)
            raise ServerUnreachableError(f"{command[0]} failed for {self._name}: {words} (log: {self.log_path})")


def _initdb(folder: Path, password_file: Path) -> list[str | Path]:
    return ["initdb", "-D", folder, "-U", USER, f"--pwfile={password_file}", *_INITDB_OPTIONS]


def base_backup(port: int, name: str) -> Callable[[Path], list[str | Path]]:
    """Return what fills a folder with a copy of the server at this port, which then follows it under this name."""
    address = f"host={HOST} port={port} user={USER} sslmode=disable application_name={name}"
    return lambda folder: ["pg_basebackup", "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d", address]


async def exchange_folders(one: Path, other: Path) -> None:
    """Give each of two data folders the name of the other; raises `ServerUnreachableError` if that cannot be done."""
    try:
        await asyncio.to_thread(exchange, one, other)
    except OSError as error:
        raise ServerUnreachableError(
            f"{one} and {other} cannot be swapped ({error.strerror}); put the data folder on another filesystem"
        ) from error


class ReplicaProcess(PostgresProcess):
    """A replica, whose data begins as a copy of its primary's."""

    def __init__(
        self,
        site: ProcessSite,
        *,
        options: Mapping[str, str],
        install: Callable[[int], Path],
        account: Account | None,
        primary: PostgresProcess,
    ) -> None:
        """Be a replica of this primary, and of its version."""
        super().__init__(site, options=options, install=install, account=account, version=primary.version)
        self._primary = primary

    def next_release(self) -> versions.ServerRelease:
        raise UsageError("a replica cannot be upgraded by itself; upgrade its primary, which it is then copied from")

    async def prepare(self) -> None:
        newer = self._primary.version
        if self.working_folder.exists() and self._found_version() != str(newer):
            # Its primary was upgraded: a replica of another version cannot follow it, and starts over from a copy.
            await self.wipe()
        if self.version != newer:
            self.become(newer)
        await super().prepare()

    async def create(self, *options: str) -> None:
        del options  # a copy has those of its primary
        await self.fill(
            base_backup(self._primary.pinned.port, self._name), {"PGPASSWORD": self._primary.pinned.password}
        )
