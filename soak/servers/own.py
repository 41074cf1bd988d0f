"""Testbeds of our own servers: what is the same for processes and containers.

Each server keeps its port and its password from one start to the next, in a state file of the data folder.
"""

from __future__ import annotations

import abc
import asyncio
import functools
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from soak.errors import UsageError
from soak.servers import state
from soak.servers.bed import HTTP, LEDGER, POSTGRES, REPLICA, BedKind, in_order
from soak.servers.ports import free_port
from soak.servers.postgres import PostgresServer
from soak.servers.postgres_settings import OURS as POSTGRES_OURS
from soak.servers.proxy import Proxy
from soak.servers.proxy_port import start_proxy
from soak.servers.redis_settings import OURS as REDIS_OURS
from soak.servers.server import EventListener, Server, ServerEvent

_PASSWORD_BYTES = 24
_AFTERWARDS = (REPLICA, HTTP)

_NAME = re.compile(r"[a-z][a-z0-9_.-]*")
_SAVE_POINTS = re.compile(r"\s*(\d+\s+\d+\s*)*")


class ManagedServers(abc.ABC):
    """Starts servers, keeps them alive, and ends them."""

    kind: ClassVar[BedKind]

    def __init__(
        self,
        folder: Path,
        *,
        redis_options: Mapping[str, str] | None,
        postgres_options: Mapping[str, str] | None,
        proxied: bool,
        on_event: EventListener | None,
    ) -> None:
        self._folder = folder
        """Holds the state file, and a folder for each server."""
        self._redis_options = _checked("Redis", redis_options or {}, REDIS_OURS)
        self._postgres_options = _checked("PostgreSQL", postgres_options or {}, POSTGRES_OURS)
        self._proxied = proxied
        self._on_event: EventListener = on_event or _ignore
        self._servers: dict[str, Server] = {}
        self._state = state.TestbedState()
        self._opened = False
        self.namespace: str | None = None

    @property
    def servers(self) -> Mapping[str, Server]:
        return self._servers

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        missing = [kind for kind in in_order(kinds) if kind not in self._servers]
        await self._open()
        try:
            # A replica is copied from its primary, and a service rests on servers, so these come first.
            await self._start_all([kind for kind in missing if kind not in _AFTERWARDS])
            for later in _AFTERWARDS:
                await self._start_all([kind for kind in missing if kind == later])
        except BaseException:
            await self._stop_all(missing)
            raise
        return {kind: server.url for kind, server in self._servers.items()}

    async def stop(self) -> None:
        await self._stop_all(list(self._servers))

    async def discard(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._state = state.TestbedState()

    async def telemetry(self, kind: str) -> dict[str, str]:
        return await self._servers[kind].telemetry()

    def refuses(self, fault: str, target: str) -> str | None:
        del fault, target
        return None

    @abc.abstractmethod
    def _make(self, kind: str, pinned: state.Pinned, *, fresh: bool) -> Server:
        """Make a server, which is not started yet; `fresh`: nobody has been told of its address."""

    @abc.abstractmethod
    async def _enter(self) -> None:
        """Find what a killed owner left, and take possession."""

    @abc.abstractmethod
    async def _leave(self) -> None:
        """Give up possession: nothing runs any more."""

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

    async def _start_all(self, kinds: list[str]) -> None:
        for kind in kinds:
            self._servers[kind] = await self._prepare(kind)
            self._servers[kind].tell(self._on_event)
        results = await asyncio.gather(*(self._servers[kind].start() for kind in kinds), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for kind in kinds:
            if self._proxied and kind != LEDGER:
                server = self._servers[kind]
                server.proxy = await start_proxy(server.pinned, functools.partial(_proxy_of, server))
        await self._started()
        for kind in kinds:
            self._servers[kind].watch(self._on_event)

    async def _stop_all(self, kinds: list[str]) -> None:
        stopping = [self._servers[kind] for kind in kinds if kind in self._servers]
        results = await asyncio.gather(*(server.stop() for server in stopping), return_exceptions=True)
        for server in stopping:
            if server.proxy is not None:
                await server.proxy.close()
            del self._servers[server.kind]
        if not self._servers and self._opened:
            await self._leave()
            self._opened = False
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _prepare(self, kind: str) -> Server:
        fresh = kind not in self._state.servers
        if fresh:
            self._state.servers[kind] = state.Pinned(free_port(), self._password_for(kind))
            self._save()  # before anything is made that needs the password again
        return self._make(kind, self._state.servers[kind], fresh=fresh)

    def _password_for(self, kind: str) -> str:
        # A replica is a copy, and so is its password.
        if kind == REPLICA:
            return self._state.servers[POSTGRES].password
        return secrets.token_hex(_PASSWORD_BYTES)

    def _primary(self) -> PostgresServer:
        primary = self._servers[POSTGRES]
        if not isinstance(primary, PostgresServer):
            raise TypeError(primary)
        return primary

    def _save(self) -> None:
        state.save(self._folder, self._state)


def _proxy_of(server: Server, port: int) -> Proxy:
    return Proxy(port, server.port, server.exchange)


def _ignore(_event: ServerEvent) -> None:
    pass


def _checked(server: str, options: Mapping[str, str], ours: frozenset[str]) -> dict[str, str]:
    """Return the options if each can stand in a configuration file and none is about where the server lives."""
    for name, value in options.items():
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is no name of a {server} setting; write it as the server's manual does")
        if name in ours:
            raise UsageError(f"the {server} setting {name} is chosen by the testbed; leave it out of the options")
        if "\n" in value or "\r" in value or "\0" in value:
            raise UsageError(f"the value of the {server} setting {name} holds a line break; write it in one line")
        if name == "save" and _SAVE_POINTS.fullmatch(value) is None:
            raise UsageError(
                f"{value!r} is no list of save points; write pairs of seconds and changes, such as '900 1'"
            )
    return dict(options)
