"""One supervised server: started, watched, started again when it dies, and ended."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import enum
import inspect
import logging
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from soak.errors import ServerUnreachableError, UsageError
from soak.tasks import end_tasks
from soak.testbed import process
from soak.testbed.ports import HOST, free_port, is_free

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from soak.testbed.power_cut import CutPower, PowerSupply
    from soak.testbed.proxy import Proxy
    from soak.testbed.state import Pinned

READY_SECONDS_MAX = 30.0
"""For a first answer; a server that says it is still loading is given `LOADING_SECONDS_MAX`."""
LOADING_SECONDS_MAX = 600.0
STOP_SECONDS_MAX = 10.0
RESTARTS_IN_VAIN_MAX = 10
"""So many restarts in a row that bring no lasting server, and it is given up."""
LASTING_SECONDS = 2.0
BACKOFF_SECONDS_FIRST = 0.05
BACKOFF_SECONDS_MAX = 5.0
LOG_BYTES_MAX = 8 * 2**20
FRESH_PORTS_MAX = 5
_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
_READY_POLL_SECONDS = 0.02


class ServerState(enum.StrEnum):
    """Where a server is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    PAUSED = "paused"
    GAVE_UP = "gave_up"


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a server and that nobody asked for."""

    kind: str
    what: str
    """`died`, `restarted` or `gave_up`."""
    at_us: int
    """CLOCK_MONOTONIC, microseconds."""
    detail: str


EventListener = Callable[[ServerEvent], Awaitable[None] | None]


class PortTakenError(ServerUnreachableError):
    """Somebody else listens on the port."""


class StillLoadingError(Exception):
    """The server is there and reads its data back."""


class Server(abc.ABC):
    """A server process of one kind with its folder, address and log."""

    title: str
    death_signal = signal.SIGTERM
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        *,
        fresh: bool,
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
    ) -> None:
        self.kind = kind
        self.options = options
        """Settings of the server that replace ours."""
        self.folder = folder
        self.pinned = pinned
        self.state = ServerState.STOPPED
        self.restarts = 0
        self.configuration: Mapping[str, str] = {}
        """The effective configuration, read back from the server after each start."""
        self.log_path = folder / "server.log"
        self._fresh = fresh
        self._on_spawn = on_spawn
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._watcher: asyncio.Task[None] | None = None
        self._on_event: EventListener | None = None
        self._mourned = False
        """A death was told that nobody asked for, and no restart yet."""
        self._planned = asyncio.Lock()
        self.proxy: Proxy | None = None
        """What clients connect to instead, where network faults are wanted."""
        self.power: PowerSupply | None = None
        """What knows what was synced, where power cuts are wanted."""
        self.environment: Mapping[str, str] = {}
        """What the server's process finds in its environment besides the usual."""

    @property
    def pid(self) -> int | None:
        """The server's first process, while it lives."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def port(self) -> int:
        """Where the server itself listens."""
        return self.pinned.port

    @property
    def public_port(self) -> int:
        """Where clients connect: the proxy if there is one."""
        return self.port if self.proxy is None else self.proxy.port

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The address for clients, with the password in it."""

    @property
    @abc.abstractmethod
    def working_folder(self) -> Path:
        """The folder that every process of this server has as its working folder."""

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Make the data folder ready for a start: create it if needed, remove what a crash left."""

    @abc.abstractmethod
    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process."""

    @abc.abstractmethod
    async def answers(self) -> bool:
        """Tell whether it serves requests; raises `StillLoadingError` when it will soon."""

    @abc.abstractmethod
    async def read_configuration(self) -> dict[str, str]:
        """Ask the server which configuration is in effect."""

    @abc.abstractmethod
    async def telemetry(self) -> dict[str, str]:
        """Sample what explains a later loss: unsynced bytes, evictions, replication lag."""

    async def start(self) -> None:
        """Bring the server up and return when it answers."""
        self.state = ServerState.STARTING
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(FRESH_PORTS_MAX):
            try:
                await self._launch()
            except PortTakenError:
                # Lost the race for a port nobody has been told about yet: take another.
                if not self._fresh:
                    raise
                self.pinned.port = free_port()
            else:
                self._fresh = False
                return
        raise ServerUnreachableError(f"{self.title} found {FRESH_PORTS_MAX} free ports taken by others; start it again")

    def watch(self, on_event: EventListener) -> None:
        """Start the server again whenever it dies, from now until `stop`; planned deaths are left alone."""
        self._on_event = on_event
        self._watcher = asyncio.get_running_loop().create_task(self._keep_alive(on_event), name=f"watch {self.kind}")

    async def stop(self) -> None:
        """End the server cleanly, or within a bounded time otherwise, for good."""
        await self.stop_cleanly()
        self._on_event = None

    async def kill(self) -> None:
        """Crash the server: all its processes end at one moment and it stays down until `start_again`."""
        async with self._planned:
            await self._crash()

    async def cut_power(self) -> CutPower:
        """Crash the server and lose what it has not synced; it stays down until `start_again`."""
        async with self._planned:
            if self.power is None:
                raise UsageError(f"{self.title} runs without a power supply of its own; start it with power cuts")
            await self._crash()
            return await asyncio.to_thread(self.power.cut)

    async def stop_cleanly(self) -> None:
        """End the server as an operator does; it stays down until `start_again`."""
        async with self._planned:
            await self._unwatch()
            if self._process is not None:
                await process.end(self._process, self.stop_signal, STOP_SECONDS_MAX)
                await process.end_strays([], [self.working_folder])
            self.state = ServerState.STOPPED

    async def start_again(self) -> None:
        """Bring a server back that was ended on purpose, on its port and its data; nothing if it runs."""
        async with self._planned:
            if self._watcher is not None and not self._watcher.done():
                return
            if self.pid is None:
                self.state = ServerState.STARTING
                try:
                    await self._launch()
                except BaseException:
                    self.state = ServerState.STOPPED
                    raise
            if self._on_event is None:
                return
            if self._mourned:
                # It had died by itself, and was then ended on purpose before it was back.
                await self._tell(self._on_event, "restarted", f"pid {self.pid} on port {self.port}")
            self.watch(self._on_event)

    async def pause(self) -> None:
        """Stop all processes in their tracks: connections stay open and nobody answers."""
        async with self._planned:
            if self._process is not None and self.pid is not None:
                await process.freeze(self._process)
                self.state = ServerState.PAUSED

    async def resume(self) -> None:
        """Let a paused server go on; nothing if it was not paused."""
        async with self._planned:
            if self._process is not None and self.state is ServerState.PAUSED:
                process.thaw(self._process)
                self.state = ServerState.RUNNING

    async def wipe(self) -> None:
        """Remove all data, as a volume that is not there after a restart; the server must have been ended."""
        async with self._planned:
            if self.pid is not None:
                raise UsageError(f"{self.title} runs: its data can be wiped only while it is stopped")
            if self.working_folder.exists():
                # In one step, so that nobody ever starts on a part of it.
                doomed = self.working_folder.with_name("data.wiped")
                await asyncio.to_thread(shutil.rmtree, doomed, ignore_errors=True)
                self.working_folder.rename(doomed)
                await asyncio.to_thread(shutil.rmtree, doomed)

    async def _crash(self) -> None:
        await self._unwatch()
        if self._process is not None:
            await process.kill(self._process)
            await process.end_strays([], [self.working_folder])
        self.state = ServerState.STOPPED

    async def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await end_tasks([watcher])

    async def _launch(self) -> None:
        await process.end_strays([], [self.working_folder])
        await self.prepare()
        if not is_free(self.port):
            raise self._port_taken()
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        if self.power is not None:
            self.environment = await asyncio.to_thread(self.power.turn_on)
        self._process = self.spawn()
        self._on_spawn()
        try:
            await self._until_ready(self._process)
            self._check_power()
            self.configuration = await self.read_configuration()
        except BaseException:
            await process.end(self._process, self.stop_signal, 1.0)
            raise
        self.state = ServerState.RUNNING

    async def _until_ready(self, running: subprocess.Popen[bytes]) -> None:
        started = time.monotonic()
        limit = READY_SECONDS_MAX
        while time.monotonic() - started < limit:
            if running.poll() is not None:
                raise self._failure(f"{self.title} ended while starting ({_how(running.returncode)})")
            try:
                if await self.answers():
                    return
            except StillLoadingError:
                limit = LOADING_SECONDS_MAX
            await asyncio.sleep(_READY_POLL_SECONDS)
        raise self._failure(f"{self.title} on port {self.port} did not answer within {limit:.0f} s")

    def _check_power(self) -> None:
        if self.power is not None and not self.power.is_on:
            raise self._failure(f"{self.title} runs without its power supply, for the shim was not loaded")

    def _failure(self, what: str) -> ServerUnreachableError:
        if "Address already in use" in process.last_words(self.log_path, self._log_start, lines_max=20):
            return self._port_taken()
        words = process.last_words(self.log_path, self._log_start)
        return ServerUnreachableError(f"{what}: {words or 'it logged nothing'} (log: {self.log_path})")

    def _port_taken(self) -> PortTakenError:
        return PortTakenError(
            f"{self.title} cannot listen on {HOST}:{self.port}: the port is taken by another process; "
            "end that or choose another data folder"
        )

    async def _keep_alive(self, on_event: EventListener) -> None:
        in_vain = 0
        while True:
            alive_since = time.monotonic()
            died = await self._until_death()
            self.state = ServerState.RESTARTING
            await self._tell(on_event, "died", died)
            if time.monotonic() - alive_since >= LASTING_SECONDS:
                in_vain = 0
            while True:
                if in_vain >= RESTARTS_IN_VAIN_MAX:
                    self.state = ServerState.GAVE_UP
                    await self._tell(on_event, "gave_up", f"after {in_vain} restarts in vain: {died}")
                    return
                await asyncio.sleep(min(BACKOFF_SECONDS_FIRST * 2**in_vain, BACKOFF_SECONDS_MAX))
                in_vain += 1
                try:
                    await self._launch()
                except Exception as error:  # noqa: BLE001  whatever it is, the next try may succeed
                    died = str(error) or type(error).__name__
                else:
                    break
            self.restarts += 1
            await self._tell(on_event, "restarted", f"pid {self.pid} on port {self.port}, attempt {in_vain}")

    async def _until_death(self) -> str:
        running = self._process
        if running is None:
            return "it was not started"
        while running.poll() is None:
            self._bound_log()
            await asyncio.sleep(_POLL_SECONDS)
        words = process.last_words(self.log_path, self._log_start, lines_max=1)
        return f"pid {running.pid} {_how(running.returncode)}; last logged: {words or 'nothing'}"

    def _bound_log(self) -> None:
        # Watching goes on where the log was removed or the disk is full.
        with contextlib.suppress(OSError):
            if self.log_path.stat().st_size > LOG_BYTES_MAX:
                shutil.copyfile(self.log_path, self.log_path.with_suffix(".log.1"))
                # The server appends, so it goes on writing at the new end.
                os.truncate(self.log_path, 0)
                self._log_start = 0

    async def _tell(self, on_event: EventListener, what: str, detail: str) -> None:
        self._mourned = what != "restarted"
        event = ServerEvent(kind=self.kind, what=what, at_us=time.monotonic_ns() // 1000, detail=detail)
        try:
            answer = on_event(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001  a listener's fault must not end the supervision
            _LOG.exception("the listener failed on %s of %s", what, self.kind)


def _how(returncode: int) -> str:
    if returncode < 0:
        return f"ended by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"
