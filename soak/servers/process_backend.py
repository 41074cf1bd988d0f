"""A server as a local process with a folder of its own: it ends with us, and so does everything it started."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from soak.proc import tree
from soak.proc.guardian import Guardian
from soak.proc.spawn import DEVNULL, STDOUT, Running, start
from soak.servers.backend import PortTakenError, ServerBackend
from soak.servers.ports import is_free
from soak.servers.power_cut.source import CutPower
from soak.servers.state import Pinned
from soak.servers.strays import end_strays
from soak.servers.unprivileged import Account

LOG_BYTES_MAX = 8 * 2**20
_FIRST = 1
"""What a program sees of its own number in a container."""


class Program(NamedTuple):
    """A program of a server, as it is to be started."""

    server: str
    argv: Sequence[str | Path]
    folders: Sequence[Path]
    """What it has to see."""
    log_path: Path
    """Where what it writes goes."""
    environment: Mapping[str, str]
    stdin: int
    cwd: Path
    death_signal: signal.Signals
    account: Account | None


class Starter(Protocol):
    """Starts the programs of a server."""

    brings_programs: bool
    """Whether programs are known by their names alone, wherever they are."""

    async def start(self, program: Program) -> Running: ...


class AsProcess:
    """Starts them as processes that end with us."""

    brings_programs = False

    async def start(self, program: Program) -> Running:
        # Not our environment: PGDATA, PGPORT, PGOPTIONS and the like would change what is started.
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TZ") if name in os.environ}
        with program.log_path.open("ab") as log:
            return start(
                program.argv,
                environment={"PATH": os.defpath, **kept, **program.environment},
                stdin=program.stdin,
                stdout=log,
                stderr=STDOUT,
                cwd=program.cwd,
                death_signal=program.death_signal,
                account=program.account,
            )


class ProcessSite(NamedTuple):
    """Where a local server lives."""

    name: str
    folder: Path
    pinned: Pinned
    on_spawn: Callable[[], None]
    """Called after each start; writes down what is pinned, and who runs."""
    home: Path | None = None
    """The folder that `data` is in, where that is not `folder`."""
    starter: Starter = AsProcess()


class ProcessBackend(ServerBackend):
    """Runs one program. What it is and what its data folder must hold is said by those derived from it."""

    is_local_process = True
    ready_seconds_max = 30.0
    death_signal = signal.SIGTERM
    """Sent by the kernel when we are gone, however we went."""
    stop_signal = signal.SIGTERM

    def __init__(self, title: str, site: ProcessSite, options: Mapping[str, str]) -> None:
        super().__init__(title, site.folder, options)
        self.pinned = site.pinned
        self.home = site.home or site.folder
        self.environment: Mapping[str, str] = {}
        """What the process finds in its environment besides the usual."""
        self._name = site.name
        self._on_spawn = site.on_spawn
        self._starter = site.starter
        self._process: Running | None = None
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
    async def spawn(self) -> Running:
        """Start the process."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def pid_inside(self) -> int | None:
        if self.pid is None:
            return None
        return _FIRST if self._starter.brings_programs else self.pid

    @property
    def no_power_cut(self) -> str | None:
        return None if self.power is not None else "it runs without a power supply of its own; start it with power cuts"

    async def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        await self._end_strays()
        if self.power is not None:
            await asyncio.to_thread(self.power.provide_disk)
        await self.prepare()
        if not is_free(self.pinned.port):
            raise PortTakenError(self.title, self.pinned.port)
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        if self.power is not None:
            self.environment = {**self.environment, **await asyncio.to_thread(self.power.turn_on)}
        self._process = await self.spawn()
        self._on_spawn()

    async def how_it_ended(self) -> str | None:
        if self._process is None:
            return "it was not started"
        if self._process.poll() is None:
            self._bound_log()
            return None
        return f"pid {self._process.pid} {_how(self._process.poll() or 0)}"

    def what_is_wrong(self) -> str | None:
        return None if self.power is None else self.power.problem(self.working_folder)

    async def end(self, seconds: float) -> None:
        if self._process is not None:
            await tree.end(self._process, self.stop_signal, seconds)
            await self._end_strays()
        self._dismiss_guardian()

    async def kill(self) -> None:
        if self._process is not None:
            await tree.kill(self._process)
            await self._end_strays()
        self._dismiss_guardian()

    async def freeze(self) -> None:
        if self._process is None:
            return
        self._dismiss_guardian()
        self._guardian = Guardian([self._process.pid])  # before anything is frozen
        frozen = await tree.freeze(self._process.pid)
        self._guardian.watch_over(member.pid for member in frozen)

    async def thaw(self) -> None:
        if self._process is not None:
            tree.thaw(self._process)
        self._dismiss_guardian()

    def _dismiss_guardian(self) -> None:
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            guardian.dismiss()

    async def wipe(self) -> None:
        if self.power is not None:
            await asyncio.to_thread(self.power.provide_disk)
        if self.working_folder.exists():
            # In one step, so that nobody ever starts on a part of it.
            doomed = self.working_folder.with_name("data.wiped")
            await asyncio.to_thread(shutil.rmtree, doomed, ignore_errors=True)
            self.working_folder.rename(doomed)
            await asyncio.to_thread(shutil.rmtree, doomed)

    async def cut_power(self) -> CutPower | None:
        if self.power is None:
            raise TypeError("asked although there is no power supply")
        return await self.power.cut_under(self.freeze, self.kill)

    async def start_program(
        self,
        argv: Sequence[str | Path],
        *,
        home: Path,
        cwd: Path | None = None,
        account: Account | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int = DEVNULL,
    ) -> Running:
        """Start a program of this server: it writes to the log and ends with us."""
        extra = self.environment if environment is None else environment
        return await self._starter.start(
            Program(
                server=self._name,
                argv=argv,
                folders=(self.folder, self.home),
                log_path=self.log_path,
                environment={"HOME": str(home), "LC_ALL": "C", **extra},
                stdin=stdin,
                cwd=cwd or self.working_folder,
                death_signal=self.death_signal,
                account=account,
            )
        )

    async def last_words(self, lines_max: int = 3) -> str:
        return tree.last_words(self.log_path, self._log_start, lines_max)

    async def _end_strays(self) -> None:
        await end_strays([], [self.working_folder])

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
