"""A server that tests use and, where it is theirs, may break: restart, kill, pause, refuse writes."""

from __future__ import annotations

import abc
import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from soak.contract_suite import administration
from soak.errors import UsageError
from soak.pytest_plugin.options import Version

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


class SoakServer(abc.ABC):
    """One server. What a test breaks and leaves broken is mended before the next one."""

    def __init__(self, kind: str, version: Version, background: Background) -> None:
        self.kind = kind
        """`redis`, `postgres` or `postgres-replica`."""
        self.version = version.name
        self._background = background
        self._is_disturbed = False
        self._refuses_writes = False

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The address, with user and password; the same for the whole session, restarts included."""

    @property
    def protected(self) -> str | None:
        """Why this server must not be broken, or None where it is ours."""
        return None

    async def restart(self) -> None:
        """End the server cleanly and start it again on its data; returns when it answers."""
        self._check_ours("restarted")
        self._is_disturbed = True
        await self._background.there(self._restart())
        self._is_disturbed = self._refuses_writes

    async def stop(self) -> None:
        """End the server cleanly; it stays down until `start`."""
        self._check_ours("stopped")
        self._is_disturbed = True
        await self._background.there(self._stop_cleanly())

    async def kill(self) -> None:
        """End all its processes at one moment; it stays down until `start`."""
        self._check_ours("killed")
        self._is_disturbed = True
        await self._background.there(self._kill())

    async def start(self) -> None:
        """Start it again on its data after `stop` or `kill`; returns when it answers."""
        self._check_ours("started")
        await self._background.there(self._start())
        self._is_disturbed = self._refuses_writes

    async def pause(self) -> None:
        """Let it fall silent: connections stay open and nobody answers, until `resume`."""
        self._check_ours("paused")
        self._is_disturbed = True
        await self._background.there(self._pause())

    async def resume(self) -> None:
        """Let a paused server go on."""
        self._check_ours("resumed")
        await self._background.there(self._resume())
        self._is_disturbed = self._refuses_writes

    async def refuse_writes(self) -> None:
        """Let it answer reads, and each write with an error, until `accept_writes`."""
        self._check_ours("made to refuse writes")
        self._is_disturbed = self._refuses_writes = True
        await self._background.there(administration.refuse_writes(self.kind, self.url))

    async def accept_writes(self) -> None:
        self._check_ours("made to accept writes")
        await self._background.there(administration.accept_writes(self.kind, self.url))
        self._is_disturbed = self._refuses_writes = False

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
        await self._resume()
        await self._start()
        if self._refuses_writes:
            await administration.accept_writes(self.kind, self.url)
        self._is_disturbed = self._refuses_writes = False

    def _check_ours(self, what: str) -> None:
        if self.protected is not None:
            raise UsageError(f"the {self.kind} server cannot be {what}: {self.protected}")

    async def _restart(self) -> None:
        await self._stop_cleanly()
        await self._start()

    @abc.abstractmethod
    async def _stop_cleanly(self) -> None: ...

    @abc.abstractmethod
    async def _kill(self) -> None: ...

    @abc.abstractmethod
    async def _start(self) -> None:
        """Start it, unless it runs."""

    @abc.abstractmethod
    async def _pause(self) -> None: ...

    @abc.abstractmethod
    async def _resume(self) -> None:
        """Let it go on, if it is paused."""


class ExternalServer(SoakServer):
    """A server that already runs and belongs to somebody else."""

    def __init__(self, kind: str, version: Version, background: Background, url: str) -> None:
        super().__init__(kind, version, background)
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    @property
    def protected(self) -> str | None:
        return "its address was given, so others may be using it; run with --soak-servers=embedded or docker for that"

    async def _stop_cleanly(self) -> None:
        self._check_ours("stopped")

    async def _kill(self) -> None:
        self._check_ours("killed")

    async def _start(self) -> None:
        self._check_ours("started")

    async def _pause(self) -> None:
        self._check_ours("paused")

    async def _resume(self) -> None:
        self._check_ours("resumed")
