"""PostgreSQL as a local process, run by an unprivileged user where we are root."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from soak.errors import ServerUnreachableError, UsageError
from soak.testbed import process
from soak.testbed.ports import HOST
from soak.testbed.postgres_settings import USER, postgres_settings
from soak.testbed.process_vessel import ProcessVessel
from soak.testbed.state import Pinned, write_whole

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping

    from soak.testbed.account import Account

_TOOL_SECONDS_MAX = 120.0
_INITDB_OPTIONS = ("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions")


class PostgresProcess(ProcessVessel):
    """A primary in a folder of its own."""

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
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
        home: Path,
        programs: Path,
        account: Account | None,
        version: int,
    ) -> None:
        super().__init__(f"PostgreSQL {version} for {kind}", folder, pinned, on_spawn=on_spawn, options=options)
        self.home = home
        """The folder that `data` is in: `folder`, or a place elsewhere that the account can reach."""
        self._kind = kind
        self._programs = programs
        self._account = account
        self._version = version

    @property
    def working_folder(self) -> Path:
        return self.home / "data"

    async def prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.working_folder.exists():
            await self.create()
        self._check_version()
        # No process works in this folder any more (strays were ended), so its pid, perhaps given to another
        # process since, must not keep the server from starting.
        (self.working_folder / "postmaster.pid").unlink(missing_ok=True)
        self._write_owned(self.working_folder / "postgresql.conf", postgres_settings(self.options, self._place()))

    def spawn(self) -> subprocess.Popen[bytes]:
        return self._run(["postgres", "-D", self.working_folder], self.environment)

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
        unfinished.rename(self.working_folder)

    def _place(self) -> dict[str, str]:
        return {"listen_addresses": HOST, "unix_socket_directories": "", "port": str(self.pinned.port)}

    def _check_version(self) -> None:
        try:
            found = (self.working_folder / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise UsageError(
                f"{self.working_folder} is no PostgreSQL data folder ({error.strerror}); choose another data folder"
            ) from error
        if found != str(self._version):
            raise UsageError(
                f"{self.working_folder} holds data of PostgreSQL {found}, which PostgreSQL {self._version} "
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
            raise ServerUnreachableError(f"{command[0]} failed for {self._kind}: {words} (log: {self.log_path})")


class ReplicaProcess(PostgresProcess):
    """A replica, whose data begins as a copy of its primary's."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        *,
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
        home: Path,
        programs: Path,
        account: Account | None,
        version: int,
        primary: Pinned,
    ) -> None:
        super().__init__(
            kind,
            folder,
            pinned,
            on_spawn=on_spawn,
            options=options,
            home=home,
            programs=programs,
            account=account,
            version=version,
        )
        self._primary = primary

    async def create(self) -> None:
        address = f"host={HOST} port={self._primary.port} user={USER} sslmode=disable application_name={self._kind}"
        await self.fill(
            lambda folder: ["pg_basebackup", "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d", address],
            {"PGPASSWORD": self._primary.password},
        )
