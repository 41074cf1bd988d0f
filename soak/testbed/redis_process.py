"""Valkey or Redis as a local process: the memory under test, and in a folder of its own the ledger."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from soak.errors import UsageError
from soak.testbed import binaries, process
from soak.testbed.ports import HOST
from soak.testbed.process_vessel import ProcessVessel
from soak.testbed.redis_settings import redis_settings
from soak.testbed.state import Pinned, write_whole
from soak.testbed.versions import ServerVersion, redis_version

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from pathlib import Path

_MANY_FILES_SINCE = 7
"""From this version on an append-only file is a folder of files, which older versions do not look for."""


class RedisProcess(ProcessVessel):
    """A Redis-compatible server with its append-only file on, synced every second, that never evicts."""

    # Politely even when our own process is killed: a write that waits for a slow fsync stays in the server's
    # memory for up to two seconds, and killing it then would lose what was acknowledged.
    death_signal = signal.SIGTERM
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        *,
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
        version: ServerVersion,
        binary: Path | None = None,
    ) -> None:
        super().__init__(kind, folder, pinned, on_spawn=on_spawn, options=options)
        self._data = folder / "data"
        self._choose(version if pinned.flavour is None else redis_version(pinned.flavour), binary)

    @property
    def title(self) -> str:
        return f"{self.version.title} for {self._title}"

    def become(self, version: ServerVersion) -> None:
        """Be another server on the same data from the next launch on, and after every later start of ours."""
        self._choose(version, None)
        self.pinned.flavour = version.name
        self._on_spawn()  # which writes down what is pinned

    def _choose(self, version: ServerVersion, binary: Path | None) -> None:
        self.version = version
        self._program = binaries.redis_program(version, binary)

    @property
    def working_folder(self) -> Path:
        return self._data

    async def prepare(self) -> None:
        self._data.mkdir(mode=0o700, exist_ok=True)
        is_ours = self.pinned.flavour is None  # and not the outcome of a downgrade, which was on purpose
        if is_ours and self.version.major < _MANY_FILES_SINCE and (self._data / "appendonlydir").exists():
            # It would start empty, without an error.
            raise UsageError(
                f"{self._data} holds data of a newer server, which {self.version.title} cannot read; "
                "choose another data folder or the newer version"
            )
        for unfinished in (*self._data.glob("temp-*.aof"), *self._data.glob("temp-*.rdb")):
            unfinished.unlink(missing_ok=True)
        # In a file that only its owner may read: arguments, and so the password, show in the process list.
        settings = redis_settings(
            self.options, password=self.pinned.password, bind=HOST, port=self.pinned.port, folder=str(self._data)
        )
        write_whole(self._settings_path, settings.encode())

    def spawn(self) -> subprocess.Popen[bytes]:
        return process.spawn(
            [self._program, self._settings_path],
            log=self.log_path,
            cwd=self._data,
            home=self.folder,
            death_signal=self.death_signal,
            environment=self.environment,
        )

    @property
    def _settings_path(self) -> Path:
        return self.folder / "server.conf"
