"""One supervised server: started, watched, started again when it dies, and ended."""

from __future__ import annotations

import abc
import asyncio
import enum
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from soak.clock import now_us
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.backend import PortTakenError, ServerBackend, StillLoadingError
from soak.servers.exchange import HttpExchange, PostgresExchange, RedisExchange
from soak.servers.ports import free_port
from soak.servers.power_cut import CutPower, FsyncShim, LoopbackVolume
from soak.servers.proxy import Proxy
from soak.servers.state import Pinned
from soak.tasks import end_tasks

LOADING_SECONDS_MAX = 600.0
"""For a server that answers that it is still loading."""
STOP_SECONDS_MAX = 10.0
RESTARTS_IN_VAIN_MAX = 10
"""So many restarts in a row that bring no lasting server, and it is given up."""
LASTING_SECONDS = 2.0
BACKOFF_SECONDS_FIRST = 0.05
BACKOFF_SECONDS_MAX = 5.0
FRESH_PORTS_MAX = 5
_LOG = logging.getLogger(__name__)
_ABORT_SECONDS_MAX = 1.0
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
    """`died`, `restarted` or `gave_up`; or `repaired`: it refused to start until something was done about its data."""
    at_us: int
    """CLOCK_MONOTONIC, microseconds."""
    detail: str


EventListener = Callable[[ServerEvent], Awaitable[None] | None]


class Server(abc.ABC):
    """A server of one kind with its address, whatever it lives in: what faults, daemon and tests deal with."""

    exchange: ClassVar[type[RedisExchange | PostgresExchange | HttpExchange]]
    """What a proxy must know of its protocol."""

    def __init__(self, kind: str, pinned: Pinned, vessel: ServerBackend, *, fresh: bool) -> None:
        self.kind = kind
        self.pinned = pinned
        self.vessel = vessel
        self.state = ServerState.STOPPED
        self.restarts = 0
        self.configuration: Mapping[str, str] = {}
        """The effective configuration, read back from the server after each start."""
        self.proxy: Proxy | None = None
        """What clients connect to instead, where network faults are wanted."""
        self._fresh = fresh
        self._watcher: asyncio.Task[None] | None = None
        self._on_event: EventListener | None = None
        self._mourned = False
        """A death was told that nobody asked for, and no restart yet."""
        self._planned = asyncio.Lock()

    @property
    def title(self) -> str:
        """The server in words, such as `Valkey 9 for redis`."""
        return self.vessel.title

    @property
    def pid(self) -> int | None:
        """The server's first process, while it lives."""
        return self.vessel.pid

    @property
    def options(self) -> Mapping[str, str]:
        """Settings of the server that replace ours; a change holds from the next start on."""
        return self.vessel.options

    @options.setter
    def options(self, options: Mapping[str, str]) -> None:
        self.vessel.options = options

    @property
    def folder(self) -> Path:
        """The folder of its log and settings."""
        return self.vessel.folder

    @property
    def working_folder(self) -> Path:
        """The folder of its data; raises `UsageError` where that is not a folder of this machine."""
        return self.vessel.working_folder

    @property
    def log_path(self) -> Path:
        return self.vessel.log_path

    @property
    def power(self) -> FsyncShim | LoopbackVolume | None:
        """What can be cut, where it runs for power cuts."""
        return self.vessel.power

    @property
    def port(self) -> int:
        """Where the server itself listens."""
        return self.pinned.port

    @property
    def public_port(self) -> int:
        """Where clients connect: the proxy if there is one."""
        return self.port if self.proxy is None else self.proxy.port

    @property
    def url(self) -> str:
        """The address for clients, with the password in it."""
        return self.address(self.public_port)

    @abc.abstractmethod
    def address(self, port: int) -> str:
        """Return the address under which it is reached at this port."""

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

    def tell(self, on_event: EventListener) -> None:
        """Tell what happens to it, also before it is watched."""
        self._on_event = on_event

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
            self._check("killed")
            await self._crash()

    async def cut_power(self) -> CutPower | None:
        """Crash the server and lose what it has not synced; it stays down until `start_again`."""
        async with self._planned:
            if self.vessel.no_power_cut is not None:
                raise UsageError(f"the power of {self.title} cannot be cut: {self.vessel.no_power_cut}")
            await self._unwatch()
            try:
                return await self.vessel.cut_power()
            finally:
                self.state = ServerState.STOPPED

    async def stop_cleanly(self) -> None:
        """End the server as an operator does; it stays down until `start_again`."""
        async with self._planned:
            self._check("stopped")
            await self._unwatch()
            await self.vessel.end(STOP_SECONDS_MAX)
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
            self._check("paused")
            if self.pid is not None:
                await self.vessel.freeze()
                self.state = ServerState.PAUSED

    async def resume(self) -> None:
        """Let a paused server go on; nothing if it was not paused."""
        async with self._planned:
            if self.state is ServerState.PAUSED:
                await self.vessel.thaw()
                self.state = ServerState.RUNNING

    async def wipe(self) -> None:
        """Remove all data, as a volume that is not there after a restart; the server must have been ended."""
        async with self._planned:
            self._check("wiped")
            if self.pid is not None:
                raise UsageError(f"{self.title} runs: its data can be wiped only while it is stopped")
            await self.vessel.wipe()

    def _check(self, what: str) -> None:
        if (why := self.vessel.refuses(what)) is not None:
            raise UsageError(f"{self.title} cannot be {what}: {why}")

    async def _crash(self) -> None:
        await self._unwatch()
        await self.vessel.kill()
        self.state = ServerState.STOPPED

    async def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await end_tasks([watcher])

    async def _launch(self) -> None:
        await self.vessel.launch()
        try:
            await self._until_ready()
            self.configuration = await self.read_configuration()
        except BaseException:
            await self.vessel.end(_ABORT_SECONDS_MAX)
            raise
        if isinstance(self.power, LoopbackVolume):
            self.power.came_back()
        self.state = ServerState.RUNNING

    async def _until_ready(self) -> None:
        started = time.monotonic()
        limit = self.vessel.ready_seconds_max
        while time.monotonic() - started < limit:
            if (how := await self.vessel.how_it_ended()) is not None:
                raise await self.failure(f"{self.title} ended while starting ({how})")
            try:
                if await self.answers():
                    break
            except StillLoadingError:
                limit = LOADING_SECONDS_MAX
            await asyncio.sleep(_READY_POLL_SECONDS)
        else:
            raise await self.failure(f"{self.title} on port {self.port} did not answer within {limit:.0f} s")
        if (wrong := self.vessel.what_is_wrong()) is not None:
            raise await self.failure(f"{self.title} {wrong}")

    async def failure(self, what: str) -> ServerUnreachableError:
        """Return the error that says what happened, with what the server said last."""
        if "Address already in use" in await self.vessel.last_words(lines_max=20):
            return PortTakenError(self.title, self.port)
        words = await self.vessel.last_words()
        return ServerUnreachableError(f"{what}: {words or 'it logged nothing'} (log: {self.log_path})")

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
        while (how := await self.vessel.how_it_ended()) is None:  # noqa: ASYNC110  nobody tells, so it is asked
            await asyncio.sleep(_POLL_SECONDS)
        return f"{how}; last logged: {await self.vessel.last_words(lines_max=1) or 'nothing'}"

    async def _tell(self, on_event: EventListener, what: str, detail: str) -> None:
        if what != "repaired":
            self._mourned = what != "restarted"
        event = ServerEvent(kind=self.kind, what=what, at_us=now_us(), detail=detail)
        try:
            answer = on_event(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001  a listener's fault must not end the supervision
            _LOG.exception("the listener failed on %s of %s", what, self.kind)
