"""Valkey or Redis as a local process: the memory under test, and in a folder of its own the ledger."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from soak.errors import UsageError
from soak.proc.files import write_whole
from soak.proc.spawn import Running
from soak.servers import binaries
from soak.servers.ports import HOST
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.redis import redis_settings
from soak.servers.state import Pinned
from soak.servers.versions import ServerRelease, ServerVersion, next_release, redis_version

LOG_FOLDER = "appendonlydir"
"""Where newer versions keep their append-only file, and older ones do not look for it."""


@dataclass(frozen=True)
class RedisPrograms:
    """Which program is run, and what it is upgraded to; None: the next version that can be had here."""

    version: ServerVersion
    binary: Path | None = None
    upgrade: ServerVersion | None = None
    upgrade_binary: Path | None = None

    def now(self, pinned: Pinned) -> RedisPrograms:
        """Return the same with the program that a server runs after it has been upgraded."""
        if pinned.version is None:
            return self
        binary = None if pinned.program is None else Path(pinned.program)
        return replace(self, version=redis_version(pinned.version), binary=binary)


class RedisProcess(ProcessBackend):
    """A Redis-compatible server with its append-only file on, synced every second, that never evicts."""

    # Politely even when our own process is killed: a write that waits for a slow fsync stays in the server's
    # memory for up to two seconds, and killing it then would lose what was acknowledged.
    death_signal = signal.SIGTERM
    stop_signal = signal.SIGTERM

    def __init__(self, site: ProcessSite, *, options: Mapping[str, str], programs: RedisPrograms) -> None:
        now = programs.now(site.pinned)
        super().__init__(f"{now.version.title} for {site.name}", site, options)
        self._upgrade = programs.upgrade
        self._upgrade_binary = programs.upgrade_binary
        self._choose(now.version, now.binary)

    async def prepare(self) -> None:
        self.working_folder.mkdir(mode=0o700, exist_ok=True)
        is_ours = self.pinned.version is None  # and not the outcome of a downgrade, which was on purpose
        if is_ours and not self.version.has_log_folder and (self.working_folder / LOG_FOLDER).exists():
            # It would start empty, without an error.
            raise UsageError(
                f"{self.working_folder} holds data of a newer server, which {self.version.title} cannot read; "
                "choose another data folder or the newer version"
            )
        for unfinished in (*self.working_folder.glob("temp-*.aof"), *self.working_folder.glob("temp-*.rdb")):
            unfinished.unlink(missing_ok=True)
        # In a file that only its owner may read: arguments, and so the password, show in the process list.
        settings = redis_settings(
            self.options,
            password=self.pinned.password,
            bind=self.listens_on,
            port=self.pinned.port,
            folder=str(self.working_folder),
        )
        self.write_settings(settings)

    @property
    def listens_on(self) -> str:
        return HOST

    def write_settings(self, text: str) -> None:
        write_whole(self._settings_path, text.encode())

    async def spawn(self) -> Running:
        return await self.start_program([self._program, self._settings_path], home=self.folder)

    def next_release(self) -> ServerRelease:
        if self._starter.brings_programs:
            raise UsageError(f"the containers of {self._name} all have one image; take servers from packages for this")
        if self._upgrade_binary is not None:
            # Given by path, it is the only one that is meant.
            available = binaries.redis_releases(self._upgrade_binary)[-1:]
        else:
            available = binaries.redis_releases(optional=self._upgrade is not None)
        release = next_release(self.version, available, self._upgrade)
        if release is not None:
            return release
        if self._upgrade is None and self._upgrade_binary is None:
            raise UsageError(
                f"{self.version.title} is the newest server there is here; start an older one (--redis 6.2)"
            )
        have = ", ".join(one.version.title for one in available)
        wanted = self._upgrade.title if self._upgrade is not None else f"{self._upgrade_binary}"
        raise UsageError(f"{wanted} is no upgrade of {self.version.title} that is available here; there are {have}")

    async def upgrade(self) -> None:
        """Be the next release from the next start on: it reads the data of the older one."""
        self.become(self.next_release())

    def become(self, release: ServerRelease) -> None:
        """Be another version on the same data from the next start on, and after every later start of ours."""
        self._choose(release.version, None if release.program is None else Path(release.program))
        self.pinned.version, self.pinned.program = release.version.name, release.program
        self._on_spawn()  # which writes down what is pinned

    def _choose(self, version: ServerVersion, binary: Path | None) -> None:
        self.version = version
        self.title = f"{version.title} for {self._name}"
        brought = self._starter.brings_programs
        self._program = Path(f"{version.family}-server") if brought else binaries.redis_program(version, binary)

    @property
    def _settings_path(self) -> Path:
        return self.folder / "server.conf"
