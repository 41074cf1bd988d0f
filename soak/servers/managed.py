"""Servers of our own: what is the same for processes and containers.

Each server keeps its port and its password from one start to the next, in a state file of the data folder.
"""

from __future__ import annotations

import abc
import asyncio
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, TypedDict

import soak.servers.support  # noqa: F401  here, not when it is first needed: that may be in a thread, while others import
from soak.errors import UsageError
from soak.servers import postgres, redis, state
from soak.servers.kinds import BackendKind, Protocol, Role, ServerKind, with_needs
from soak.servers.ports import free_port
from soak.servers.power_cut import SIZE_DEFAULT, Disks, LoopbackVolume, PowerCutWay, size_bytes
from soak.servers.server import EventListener, LifecycleEvent, Server
from soak.servers.unprivileged import Account

_PASSWORD_BYTES = 24
_NAME = re.compile(r"[a-z][a-z0-9_.-]*")
_SAVE_POINTS = re.compile(r"\s*(\d+\s+\d+\s*)*")


class ManagedOptions(TypedDict, total=False):
    """What is chosen for processes and containers alike."""

    redis_options: Mapping[str, str]
    """They replace settings of the servers under test, never of the ledger."""
    postgres_options: Mapping[str, str]
    proxied: bool
    """Clients are given the address of a proxy in front of each server, and network faults become possible."""
    power_cuts: bool
    """Where there can be none, `no_power_cuts` says why."""
    power_cut_by: PowerCutWay
    disk_size: str
    on_event: EventListener


class ManagedServers(abc.ABC):
    """Starts servers, keeps them alive, and ends them."""

    backend: ClassVar[BackendKind]

    def __init__(self, folder: Path, options: ManagedOptions) -> None:
        self._folder = folder
        """Holds the state file, and a folder for each server."""
        self._options = {
            Protocol.REDIS: _checked("Redis", options.get("redis_options", {}), redis.CHOSEN_BY_US),
            Protocol.POSTGRES: _checked("PostgreSQL", options.get("postgres_options", {}), postgres.CHOSEN_BY_US),
            Protocol.HTTP: {},
            Protocol.SQLITE: {},
        }
        self._proxied = options.get("proxied", False)
        self._power_cuts = options.get("power_cuts", False)
        self._power_cut_by: PowerCutWay = options.get("power_cut_by", "auto")
        self.no_power_cuts: str | None = None if self._power_cuts else "the servers were started without power cuts"
        self._disks = Disks(folder, size=size_bytes(options.get("disk_size", SIZE_DEFAULT)))
        self._on_event: EventListener = options.get("on_event", _ignore)
        self._nodes: dict[str, Server] = {}
        self._state = state.ServersState()
        self._opened = False
        self.namespace: str | None = None

    @property
    def nodes(self) -> Mapping[str, Server]:
        return self._nodes

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        missing = [kind for kind in with_needs(kinds) if kind.name not in self._nodes]
        await self._open()
        try:
            for stage in sorted({kind.stage for kind in missing}):
                await self._start_all([kind for kind in missing if kind.stage == stage])
        except BaseException:
            await self._stop_all([kind.name for kind in missing])
            raise
        return {name: server.url for name, server in self._nodes.items()}

    async def stop(self) -> None:
        await self._stop_all(list(self._nodes))

    async def discard(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._state = state.ServersState()

    async def telemetry(self, name: str) -> dict[str, str]:
        return await self._nodes[name].telemetry()

    def refuses(self, fault: str, target: str) -> str | None:
        del fault, target
        return None

    def options_of(self, kind: ServerKind) -> dict[str, str]:
        """Return the settings that replace ours on servers of this kind."""
        return self._options[kind.protocol] if kind.is_under_test else {}

    def primary_of(self, kind: ServerKind) -> Server:
        """Return the node that replicas of this kind follow."""
        nodes = self._nodes.values()
        return next(node for node in nodes if node.kind.group == kind.group and node.role is Role.PRIMARY)

    @abc.abstractmethod
    def _make(self, kind: ServerKind, pinned: state.Pinned, *, fresh: bool) -> Server:
        """Make a server, which is not started yet; `fresh`: nobody knows its address yet."""

    @abc.abstractmethod
    async def _enter(self) -> None:
        """Find what a killed owner left, and take possession."""

    @abc.abstractmethod
    async def _leave(self) -> None:
        """Give up possession: nothing runs any more."""

    @abc.abstractmethod
    def _wants_disks(self) -> bool:
        """Return whether servers that are new get a disk of their own."""

    @abc.abstractmethod
    async def _no_disk_for(self, kind: ServerKind) -> str | None:
        """Return why this server, whose data is on none, can have no disk of its own; None if it can."""

    def _account_of(self, kind: ServerKind) -> Account | None:
        """Return the owner of this server's files, if it is not us."""
        del kind
        return None

    async def _started(self) -> None:
        """Take note of what runs now."""
        self._save()

    async def _open(self) -> None:
        if self._opened:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._state = state.load(self._folder)
            await self._enter()
        except OSError as error:
            raise UsageError(
                f"the folder {self._folder} cannot be written ({error.strerror}); "
                "choose another data folder with --data-dir"
            ) from error
        self._opened = True

    async def _start_all(self, kinds: list[ServerKind]) -> None:
        for kind in kinds:
            self._nodes[kind.name] = await self._prepare(kind)
            self._nodes[kind.name].report_to(self._on_event)
        servers = [self._nodes[kind.name] for kind in kinds]
        _raise_first(await asyncio.gather(*(server.start() for server in servers), return_exceptions=True))
        for server in servers:
            if self._proxied and server.kind.is_under_test:
                await server.start_proxy()
        await self._started()
        for server in servers:
            server.watch(self._on_event)

    async def _stop_all(self, names: list[str]) -> None:
        stopping = [self._nodes[name] for name in names if name in self._nodes]
        results = await asyncio.gather(*(server.stop() for server in stopping), return_exceptions=True)
        for server in stopping:
            await server.close_proxies()
            del self._nodes[server.name]
        if not self._nodes and self._opened:
            await self._leave()
            self._opened = False
        _raise_first(results)

    async def _prepare(self, kind: ServerKind) -> Server:
        disk = await self._disk_of(kind) if kind.is_under_test and kind.has_data_folder else None
        fresh = kind.name not in self._state.servers
        if fresh:
            self._state.servers[kind.name] = state.Pinned(free_port(), self._password_for(kind))
            self._save()  # before anything is made that needs the password again
        server = self._make(kind, self._state.servers[kind.name], fresh=fresh)
        server.backend.power = disk
        return server

    async def _disk_of(self, kind: ServerKind) -> LoopbackVolume | None:
        """Return a disk of its own for a server that has or should have one."""
        if not self._disks.has(kind.name):
            if not self._wants_disks():
                return None
            if (reason := await self._no_disk_for(kind)) is not None:
                self.no_power_cuts = reason
                return None
        return await self._disks.take(kind.name, self._account_of(kind))

    def _password_for(self, kind: ServerKind) -> str:
        # A replica is a copy, and so is its password.
        return (
            self.primary_of(kind).pinned.password if kind.role is Role.REPLICA else secrets.token_hex(_PASSWORD_BYTES)
        )

    def _save(self) -> None:
        state.save(self._folder, self._state)


def _raise_first(results: Iterable[BaseException | None]) -> None:
    for result in results:
        if result is not None:
            raise result


def _ignore(_event: LifecycleEvent) -> None:
    pass


def _checked(server: str, options: Mapping[str, str], ours: frozenset[str]) -> dict[str, str]:
    """Return the options if each can be written to a configuration file and none is about where the server lives."""
    for name, value in options.items():
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is no name of a {server} setting; write it as the server's manual does")
        if name in ours:
            raise UsageError(f"the {server} setting {name} is chosen by soak; leave it out of the options")
        if "\n" in value or "\r" in value or "\0" in value:
            raise UsageError(f"the value of the {server} setting {name} holds a line break; write it in one line")
        if name == "save" and _SAVE_POINTS.fullmatch(value) is None:
            raise UsageError(
                f"{value!r} is no list of save points; write pairs of seconds and changes, such as '900 1'"
            )
    return dict(options)
