"""One supervised server, a node of its group: started, watched, started again when it dies, and ended.

A server is a kind, which says what it is asked, in a backend, which says what it runs in. One that was given is not
watched: it is brought back by its operator's command, or in its container.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import enum
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from soak.clock import now_us
from soak.errors import ServerUnreachableError, UsageError
from soak.hosts import HostPort
from soak.servers.backend import PortTakenError, ServerBackend, StillLoadingError
from soak.servers.detour import Detour, detour_to
from soak.servers.exchange import HttpExchange, PostgresExchange, RedisExchange
from soak.servers.inspect import inspect_server
from soak.servers.kinds import ServerKind
from soak.servers.ports import HOST, free_port
from soak.servers.power_cut.source import CutPower, PowerSource
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
HOLD_SECONDS_MAX = 10.0
"""For a connection that is to be held."""
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


class LifecycleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a server and that nobody asked for."""

    kind: str
    what: str
    """`died`, `restarted` or `gave_up`; or `repaired`: it refused to start until something was done about its data."""
    at_us: int
    """CLOCK_MONOTONIC, microseconds."""
    detail: str
    replaces: bool = False
    """Another node of its group takes over from it, or has."""
    telemetry: dict[str, str] = {}
    """What the group says of that: who is the primary, and how another one was replaced."""


EventListener = Callable[[LifecycleEvent], Awaitable[None] | None]
HeldConnection = Callable[[], Awaitable[None]]
"""A connection that stays open until this is called."""


class Server(abc.ABC):
    """A node with its address, whatever it runs in: what faults, daemon and tests deal with."""

    exchange: ClassVar[type[RedisExchange | PostgresExchange | HttpExchange]]
    """What a proxy must know of its protocol."""
    is_group: ClassVar[bool] = False
    """Whether several nodes act as this server, and so most faults of one server are none of it."""
    replacement_seconds: ClassVar[float] = 0.0
    """How long a group may take to replace a primary, by its settings."""
    is_view: ClassVar[bool] = False
    """Only another way to a group: nothing runs for it, and nothing of it can break."""

    def __init__(self, kind: ServerKind, pinned: Pinned, backend: ServerBackend, *, fresh: bool) -> None:
        self.kind = kind
        self.name = kind.name
        """Of this node, among all servers of a soak."""
        self.role = kind.role
        self.pinned = pinned
        self.backend = backend
        self.state = ServerState.STOPPED
        self.restarts = 0
        """After deaths that nobody asked for."""
        self.planned_restarts = 0
        """After faults and other stops on purpose."""
        self.configuration: Mapping[str, str] = {}
        """The effective configuration, read back from the server after each start."""
        self.proxies: list[Proxy] = []
        """What clients connect to instead, where network faults are wanted: one for each host of its address."""
        self.no_proxy: str | None = None
        """Why no proxy can be before it, where it was given."""
        self._detour: Detour | None = None
        self._fresh = fresh
        self._watcher: asyncio.Task[None] | None = None
        self._on_event: EventListener | None = None
        self._death_reported = False
        """An unplanned death was reported, and no restart yet."""
        self._mark_before: str | None = None
        """Of a server that was given: the mark of the start that must be over."""
        self._planned = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self.state is ServerState.RUNNING

    @property
    def title(self) -> str:
        """The server in words, such as `Valkey 9 for redis`."""
        return self.backend.title

    @property
    def pid(self) -> int | None:
        """The server's first process, while it lives."""
        return self.backend.pid

    @property
    def options(self) -> Mapping[str, str]:
        """Settings of the server that replace ours; a change holds from the next start on."""
        return self.backend.options

    @options.setter
    def options(self, options: Mapping[str, str]) -> None:
        self.backend.options = options

    @property
    def folder(self) -> Path:
        """The folder of its log and settings."""
        return self.backend.folder

    @property
    def working_folder(self) -> Path:
        """The folder of its data; raises `UsageError` where that is not a folder of this machine."""
        return self.backend.working_folder

    @property
    def log_path(self) -> Path:
        return self.backend.log_path

    @property
    def patroni_addresses(self) -> Sequence[str]:
        """Where each Patroni of it answers, if it has some."""
        return ()

    @property
    def power(self) -> PowerSource | None:
        """What can be cut, where it runs for power cuts."""
        return self.backend.power

    @property
    def port(self) -> int:
        """Where the server itself listens."""
        return self.pinned.port

    @property
    def proxy(self) -> Proxy | None:
        """The proxy before its first host."""
        return next(iter(self.proxies), None)

    @property
    def public_port(self) -> int:
        """Where clients connect: the proxy if there is one."""
        return self.port if self.proxy is None else self.proxy.port

    @property
    def url(self) -> str:
        """The address for clients, with the password in it: of the proxy, if there is one."""
        if self.proxies and self._detour is not None:
            return self._detour.through(*(HostPort(proxy.host, proxy.port) for proxy in self.proxies))
        return self.backend.url or self.address_at(self.public_port)

    @property
    def own_url(self) -> str:
        """The address of the server itself, past its proxy."""
        return self.backend.url or self.address_at(self.port)

    @abc.abstractmethod
    def address_at(self, port: int) -> str:
        """Return the address of one of ours at this port."""

    @abc.abstractmethod
    async def answers(self) -> bool:
        """Return whether it serves requests; raises `StillLoadingError` when it will soon."""

    @abc.abstractmethod
    async def read_configuration(self) -> dict[str, str]:
        """Ask the server which configuration is in effect."""

    async def read_limits(self) -> dict[str, str]:
        """Ask for the settings that say how many connections it allows."""
        return {}

    async def hold_connections(self, count: int) -> list[HeldConnection | None]:
        """Connect so often, past the proxy, and stay connected; None where the server does not want it."""
        raise UsageError(f"none of {count} connections to {self.title} can be held")

    async def telemetry(self) -> dict[str, str]:
        """Sample what explains a later loss: unsynced bytes, evictions, replication lag."""
        sample = await inspect_server(self.kind, self.own_url, timeout_seconds=self.backend.answer_seconds_max)
        return sample.telemetry

    async def survives_taking(self, size_bytes: int) -> bool:
        """Make the server use so much memory, and return whether it survived."""
        raise UsageError(f"{self.title} cannot be made to use {size_bytes} bytes of memory")

    async def start_proxy(self, host: str = HOST) -> None:
        """Let clients come through a proxy that listens on this address, if there is such a way."""
        if self.backend.url is not None:
            try:
                self._detour = await self._way_through(self.backend.url)
            except UsageError as error:
                self.no_proxy = str(error)
                return
        places = (HostPort(HOST, self.port),) if self._detour is None else self._detour.places
        for number, place in enumerate(places):
            self.proxies.append(await self._proxy_to(place, host, known="" if number == 0 else f"proxy of {place}"))
        self.no_proxy = None

    async def _way_through(self, url: str) -> Detour:
        """Return how to get to a given server through proxies; raises `UsageError` if there is no such way."""
        return detour_to(self.kind, url)

    async def _proxy_to(self, place: HostPort, host: str, *, known: str) -> Proxy:
        """Start a proxy before one host, at the port that clients know by now."""
        pinned = self.pinned
        port = pinned.nodes.get(known) if known else pinned.proxy_port
        is_opaque = self._detour is not None and self._detour.is_opaque
        for _ in range(FRESH_PORTS_MAX):
            proxy = Proxy(
                port or free_port(),
                place.port or self.port,
                self.exchange,
                host=host,
                server_host=place.host,
                is_opaque=is_opaque,
            )
            try:
                await proxy.start()
            except ServerUnreachableError:
                # Lost the race for a port nobody knows yet: take another.
                if port is not None:
                    raise
            else:
                if known:
                    pinned.nodes[known] = proxy.port
                else:
                    pinned.proxy_port = proxy.port
                return proxy
        raise ServerUnreachableError(f"{FRESH_PORTS_MAX} free ports for a proxy were taken by others; start it again")

    async def close_proxies(self) -> None:
        """End the connections of clients that come through a proxy."""
        for proxy in self.proxies:
            await proxy.close()

    async def start(self) -> None:
        """Bring the server up and return when it answers."""
        self.state = ServerState.STARTING
        for _ in range(FRESH_PORTS_MAX):
            try:
                await self._launch()
            except PortTakenError:
                # Lost the race for a port nobody knows yet: take another.
                if not self._fresh:
                    raise
                self.pinned.port = free_port()
            else:
                self._fresh = False
                return
        raise ServerUnreachableError(f"{self.title} found {FRESH_PORTS_MAX} free ports taken by others; start it again")

    def report_to(self, on_event: EventListener) -> None:
        """Report events to this listener, also before the server is watched."""
        self._on_event = on_event

    def watch(self, on_event: EventListener) -> None:
        """Start the server again whenever it dies, from now until `stop`; planned deaths are left alone."""
        self._on_event = on_event
        self._watcher = asyncio.get_running_loop().create_task(self._keep_alive(on_event), name=f"watch {self.name}")

    async def stop(self) -> None:
        """End the server cleanly, or within a bounded time otherwise, for good; one that was given is left as it is."""
        if self.backend.is_ours:
            await self.stop_cleanly()
        self._on_event = None

    async def kill(self) -> None:
        """Crash the server: all its processes end at one moment and it stays down until `start_again`."""
        async with self._planned:
            self.backend.check("killed")
            await self._remember_start()
            await self._crash()

    async def cut_power(self) -> CutPower | None:
        """Crash the server and lose what it has not synced; it stays down until `start_again`."""
        async with self._planned:
            if (why := self.backend.no_power_cut) is not None:
                raise UsageError(f"the power of {self.title} cannot be cut: {why}")
            await self._unwatch()
            try:
                return await self.backend.cut_power()
            finally:
                self.state = ServerState.STOPPED

    async def stop_cleanly(self) -> None:
        """End the server as an operator does; it stays down until `start_again`."""
        self.backend.check("stopped")
        await self.end_by(lambda: self.backend.end(STOP_SECONDS_MAX))

    async def end_by(self, act: Callable[[], Awaitable[None]]) -> None:
        """End the server by what its backend can do; it stays down, or is not waited for, until `start_again`."""
        async with self._planned:
            await self._remember_start()
            await self._unwatch()
            try:
                await act()
            except BaseException:
                self._mark_before = None  # it was not ended, so no other start is waited for
                raise
            self.state = ServerState.STOPPED

    async def start_again(self) -> None:
        """Bring a server back that was ended on purpose, on its port and its data; nothing if it runs."""
        async with self._planned:
            if self._watcher is not None and not self._watcher.done():
                return
            if not self.backend.is_ours:
                await self._bring_back()
                self.planned_restarts += 1
                return
            if self.pid is None:
                self.state = ServerState.STARTING
                try:
                    await self._launch()
                except BaseException:
                    self.state = ServerState.STOPPED
                    raise
                self.planned_restarts += 1
            if self._on_event is None:
                return
            if self._death_reported:
                # It had died by itself, and was then ended on purpose before it was back.
                await self._report(self._on_event, "restarted", f"pid {self.pid} on port {self.port}")
            self.watch(self._on_event)

    async def pause(self) -> None:
        """Stop all processes in their tracks: connections stay open and nobody answers."""
        async with self._planned:
            self.backend.check("paused")
            if self.pid is not None:
                await self.backend.freeze()
                self.state = ServerState.PAUSED

    async def resume(self) -> None:
        """Let a paused server go on; nothing if it was not paused."""
        async with self._planned:
            if self.state is ServerState.PAUSED:
                await self.backend.thaw()
                self.state = ServerState.RUNNING
                if not self.backend.is_ours:
                    await self.learn_configuration()

    async def wipe(self) -> None:
        """Remove all data, as a volume that is not there after a restart; the server must have been ended."""
        async with self._planned:
            self.backend.check("wiped")
            if self.pid is not None:
                raise UsageError(f"{self.title} runs: its data can be wiped only while it is stopped")
            await self.backend.wipe()

    async def exhaust_memory(self) -> None:
        """Use memory up until the kernel kills the server; it stays down until `start_again`."""
        if self.backend.memory_bytes is None:
            raise UsageError(f"{self.title} has no memory limit of its own")
        async with self._planned:
            await self._unwatch()
            was_killed = not await self.survives_taking(2 * self.backend.memory_bytes)
            await self._crash()
        if not was_killed:
            raise ServerUnreachableError(
                f"{self.title} was made to use its memory up and was not killed for it; "
                "see that the kernel of the Docker engine enforces memory limits"
            )

    async def learn_configuration(self) -> None:
        """Read back what a server that was given is configured to, as far as it says."""
        with contextlib.suppress(ServerUnreachableError):
            self.configuration = {**self.configuration, **await self.read_configuration()}

    async def learn_limits(self) -> None:
        """Ask how many connections it allows, as far as it says."""
        with contextlib.suppress(ServerUnreachableError):
            self.configuration = {**self.configuration, **await self.read_limits()}

    async def _bring_back(self) -> None:
        """Start one that was given, or wait until somebody has; and see that it is not the old one."""
        self.state = ServerState.STARTING
        await self.backend.launch()
        await self._until_ready()
        self.state = ServerState.RUNNING
        await self.learn_configuration()

    async def _remember_start(self) -> None:
        if self.backend.is_ours or self._mark_before is not None:
            return
        self._mark_before = await self._start_mark()
        if self._mark_before is None and not self.kind.always_says_start:
            raise ServerUnreachableError(
                f"{self.title} does not say when it was started, so a restart cannot be noticed"
            )

    async def _start_mark(self) -> str | None:
        try:
            return (await self.telemetry()).get(self.kind.start_mark)
        except ServerUnreachableError:
            return None

    async def _crash(self) -> None:
        await self._unwatch()
        await self.backend.kill()
        self.state = ServerState.STOPPED

    async def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await end_tasks([watcher])

    async def _launch(self) -> None:
        await self.backend.launch()
        try:
            await self._until_ready()
            self.configuration = await self.read_configuration()
        except BaseException:
            await self.backend.end(_ABORT_SECONDS_MAX)
            raise
        if self.power is not None:
            self.power.came_back()
        self.state = ServerState.RUNNING

    async def _until_ready(self) -> None:
        started = time.monotonic()
        limit = self.backend.ready_seconds_max
        while time.monotonic() - started < limit:
            if (how := await self.backend.how_it_ended()) is not None:
                raise await self.failure(f"{self.title} ended while starting ({how})")
            try:
                if await self._is_ready():
                    break
            except StillLoadingError:
                limit = LOADING_SECONDS_MAX
            await asyncio.sleep(_READY_POLL_SECONDS)
        else:
            raise await self.failure(f"{self.title} on port {self.port} did not answer within {limit:.0f} s")
        if (wrong := self.backend.what_is_wrong()) is not None:
            raise await self.failure(f"{self.title} {wrong}")
        before, self._mark_before = self._mark_before, None
        if before is not None and await self._start_mark() == before:
            raise ServerUnreachableError(
                f"{self.title} was ended and started again, and the server that answers is still the old one; "
                "see that testbed.containers or testbed.workloads names the right one"
            )

    async def _is_ready(self) -> bool:
        if self.backend.restarts_elsewhere and self._mark_before is not None:
            # Commands return before all is done: the old server may still answer.
            if await self._start_mark() in (None, self._mark_before):
                raise StillLoadingError
            self._mark_before = None
        return await self.answers()

    async def failure(self, what: str) -> ServerUnreachableError:
        """Return the error that says what happened, with what the server said last."""
        if "Address already in use" in await self.backend.last_words(lines_max=20):
            return PortTakenError(self.title, self.port)
        words = await self.backend.last_words()
        return ServerUnreachableError(f"{what}: {words or 'it logged nothing'} (log: {self.log_path})")

    async def _keep_alive(self, on_event: EventListener) -> None:
        in_vain = 0
        while True:
            alive_since = time.monotonic()
            died = await self._until_death()
            self.state = ServerState.RESTARTING
            await self._report(on_event, "died", died)
            if time.monotonic() - alive_since >= LASTING_SECONDS:
                in_vain = 0
            while True:
                if in_vain >= RESTARTS_IN_VAIN_MAX:
                    self.state = ServerState.GAVE_UP
                    await self._report(on_event, "gave_up", f"after {in_vain} restarts in vain: {died}")
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
            await self._report(on_event, "restarted", f"pid {self.pid} on port {self.port}, attempt {in_vain}")

    async def _until_death(self) -> str:
        while (how := await self.backend.how_it_ended()) is None:  # noqa: ASYNC110  there is no event, so it is polled
            await asyncio.sleep(_POLL_SECONDS)
        return f"{how}; last logged: {await self.backend.last_words(lines_max=1) or 'nothing'}"

    async def _report(
        self,
        on_event: EventListener,
        what: str,
        detail: str,
        *,
        at: int | None = None,
        replaces: bool = False,
        telemetry: Mapping[str, str] | None = None,
    ) -> None:
        if what != "repaired":
            self._death_reported = what != "restarted"
        at_us = now_us() if at is None else at
        event = LifecycleEvent(
            kind=self.name,
            what=what,
            at_us=at_us,
            detail=detail,
            replaces=replaces,
            telemetry=dict(telemetry or {}),
        )
        try:
            answer = on_event(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001  a listener's fault must not end the supervision
            _LOG.exception("the listener failed on %s of %s", what, self.name)
