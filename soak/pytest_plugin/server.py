"""A server that tests use and, where it is theirs, may break: restart, kill, pause, refuse writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from soak.contract_suite import administration
from soak.errors import UsageError
from soak.pytest_plugin.options import Version
from soak.servers.server import Server

T = TypeVar("T")

CALL_SECONDS_MAX = 180.0


class Background:
    """A thread with an event loop, in which servers are started, watched and ended.

    It outlives the loops of single tests, and the kernel ends the servers with the thread that started them.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="soak-servers", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait, from plain code."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS_MAX)

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait, from a coroutine of any other loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
        self._loop.close()


class SoakServer:
    """One server. What a test breaks and leaves broken is mended before the next one."""

    def __init__(
        self, kind: str, version: Version, background: Background, server: Server | None = None, url: str = ""
    ) -> None:
        self.kind = kind
        """`redis`, `postgres` or `postgres-replica`."""
        self.version = version.label
        self._background = background
        self._server = server
        """None: soak did not start it."""
        self._url = url
        self._is_disturbed = False
        self._refuses_writes = False

    @property
    def url(self) -> str:
        """The address, with user and password; the same for the whole session, restarts included."""
        return self._url if self._server is None else self._server.url

    @property
    def protected(self) -> str | None:
        """Why this server must not be broken, or None where it is ours."""
        if self._server is not None:
            return None
        return "its address was given, so others may be using it; run with --soak-servers=embedded or docker for that"

    async def restart(self) -> None:
        """End the server cleanly and start it again on its data; returns when it answers."""
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """End the server cleanly; it stays down until `start`."""
        await self._break("stopped", lambda server: server.stop_cleanly())

    async def kill(self) -> None:
        """End all its processes at one moment; it stays down until `start`."""
        await self._break("killed", lambda server: server.kill())

    async def start(self) -> None:
        """Start it again on its data after `stop` or `kill`; returns when it answers."""
        await self._mend("started", lambda server: server.start_again())

    async def pause(self) -> None:
        """Let it fall silent: connections stay open and nobody answers, until `resume`."""
        await self._break("paused", lambda server: server.pause())

    async def resume(self) -> None:
        """Let a paused server go on."""
        await self._mend("resumed", lambda server: server.resume())

    async def refuse_writes(self) -> None:
        """Let it answer reads, and each write with an error, until `accept_writes`."""
        self._refuses_writes = self._server is not None
        await self._break("made to refuse writes", lambda _: administration.refuse_writes(self.kind, self.url))

    async def accept_writes(self) -> None:
        self._refuses_writes = False
        await self._mend("made to accept writes", lambda _: administration.accept_writes(self.kind, self.url))

    async def connections(self) -> int:
        """Return how many clients are connected, this question not counted."""
        return await self._background.there(administration.count_connections(self.kind, self.url))

    async def heal(self) -> None:
        """Mend what a test left broken; nothing if it left nothing broken."""
        if self._is_disturbed:
            await self._background.there(self._heal())

    def heal_now(self) -> None:
        """Do the same from plain code."""
        if self._is_disturbed:
            self._background.call(self._heal())

    async def _heal(self) -> None:
        server = self._ours("mended")
        await server.resume()
        await server.start_again()
        if self._refuses_writes:
            await administration.accept_writes(self.kind, self.url)
        self._is_disturbed = self._refuses_writes = False

    async def _break(self, what: str, verb: Callable[[Server], Coroutine[Any, Any, object]]) -> None:
        server = self._ours(what)
        self._is_disturbed = True
        await self._background.there(verb(server))

    async def _mend(self, what: str, verb: Callable[[Server], Coroutine[Any, Any, object]]) -> None:
        await self._background.there(verb(self._ours(what)))
        self._is_disturbed = self._refuses_writes

    def _ours(self, what: str) -> Server:
        if self._server is None:
            raise UsageError(f"the {self.kind} server cannot be {what}: {self.protected}")
        return self._server
