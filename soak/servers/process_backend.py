"""A server as a local process with a folder of its own: it ends with us, and so does everything it started."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from soak.servers import process
from soak.servers.backend import PortTakenError, ServerBackend
from soak.servers.guardian import Guardian
from soak.servers.ports import is_free
from soak.servers.power_cut import CutPower, FsyncShim, LoopbackVolume
from soak.servers.state import Pinned

LOG_BYTES_MAX = 8 * 2**20


class Berth(NamedTuple):
    """Where a local server lives."""

    kind: str
    folder: Path
    pinned: Pinned
    on_spawn: Callable[[], None]
    """Called after each start; writes down what is pinned, and who runs."""
    home: Path | None = None
    """The folder that `data` is in, where that is not `folder`."""


class ProcessVessel(ServerBackend):
    """Runs one program. What it is and what its data folder must hold is said by those derived from it."""

    ready_seconds_max = 30.0
    death_signal = signal.SIGTERM
    """Sent by the kernel when we are gone, however we went."""
    stop_signal = signal.SIGTERM

    def __init__(self, title: str, berth: Berth, options: Mapping[str, str]) -> None:
        super().__init__(title, berth.folder, options)
        self.pinned = berth.pinned
        self.home = berth.home or berth.folder
        self.environment: Mapping[str, str] = {}
        """What the process finds in its environment besides the usual."""
        self._kind = berth.kind
        self._on_spawn = berth.on_spawn
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._guardian: Guardian | None = None

    @property
    def working_folder(self) -> Path:
        """The folder of its data, which every process of this server has as its working folder."""
        return self.home / "data"

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Make the data folder ready for a start: create it if needed, remove what a crash left."""

    @abc.abstractmethod
    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def pid_inside(self) -> int | None:
        return self.pid

    @property
    def no_power_cut(self) -> str | None:
        return None if self.power is not None else "it runs without a power supply of its own; start it with power cuts"

    async def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        await self._end_strays()
        if isinstance(self.power, LoopbackVolume):
            await asyncio.to_thread(self.power.mount)
        await self.prepare()
        if not is_free(self.pinned.port):
            raise PortTakenError(self.title, self.pinned.port)
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        if isinstance(self.power, FsyncShim):
            self.environment = await asyncio.to_thread(self.power.turn_on)
        self._process = self.spawn()
        self._on_spawn()

    async def how_it_ended(self) -> str | None:
        if self._process is None:
            return "it was not started"
        if self._process.poll() is None:
            self._bound_log()
            return None
        return f"pid {self._process.pid} {_how(self._process.returncode)}"

    def what_is_wrong(self) -> str | None:
        if isinstance(self.power, FsyncShim) and not self.power.is_on:
            return "runs without its power supply, for the shim was not loaded"
        if isinstance(self.power, LoopbackVolume) and not self.power.holds(self.working_folder):
            return f"does not run on its disk {self.power.image}"
        return None

    async def end(self, seconds: float) -> None:
        if self._process is not None:
            await process.end(self._process, self.stop_signal, seconds)
            await self._end_strays()
        self._dismiss_guardian()

    async def kill(self) -> None:
        if self._process is not None:
            await process.kill(self._process)
            await self._end_strays()
        self._dismiss_guardian()

    async def freeze(self) -> None:
        if self._process is None:
            return
        self._dismiss_guardian()
        self._guardian = Guardian([self._process.pid])  # before anybody stands still
        frozen = await process.freeze(self._process)
        self._guardian.watch_over(member.pid for member in frozen)

    async def thaw(self) -> None:
        if self._process is not None:
            process.thaw(self._process)
        self._dismiss_guardian()

    def _dismiss_guardian(self) -> None:
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            guardian.dismiss()

    async def wipe(self) -> None:
        if isinstance(self.power, LoopbackVolume):
            await asyncio.to_thread(self.power.mount)
        if self.working_folder.exists():
            # In one step, so that nobody ever starts on a part of it.
            doomed = self.working_folder.with_name("data.wiped")
            await asyncio.to_thread(shutil.rmtree, doomed, ignore_errors=True)
            self.working_folder.rename(doomed)
            await asyncio.to_thread(shutil.rmtree, doomed)

    async def cut_power(self) -> CutPower | None:
        power = self.power
        if power is None:
            raise TypeError("asked although there is no power supply")
        if isinstance(power, FsyncShim):
            await self.kill()
            return await asyncio.to_thread(power.cut)
        # It stands still first: a server that saw its disk fail would say so, and not just be gone.
        await self.freeze()
        try:
            await asyncio.to_thread(power.cut, power.mount_point)
        finally:
            await self.kill()
        await asyncio.to_thread(power.unmount)
        return None

    async def last_words(self, lines_max: int = 3) -> str:
        return process.last_words(self.log_path, self._log_start, lines_max)

    async def _end_strays(self) -> None:
        await process.end_strays([], [self.working_folder])

    def _bound_log(self) -> None:
        # Watching goes on where the log was removed or the disk is full.
        with contextlib.suppress(OSError):
            if self.log_path.stat().st_size > LOG_BYTES_MAX:
                shutil.copyfile(self.log_path, self.log_path.with_suffix(".log.1"))
                # The server appends, so it goes on writing at the new end.
                os.truncate(self.log_path, 0)
                self._log_start = 0


def _how(returncode: int) -> str:
    if returncode < 0:
        return f"ended by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"
