"""A server in a container, ours or not: the engine is asked in threads, for its client waits, and one at a time."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from soak.errors import ServerUnreachableError
from soak.servers.backend import ServerBackend
from soak.servers.docker.engine import FAILURES, one_line

ASK_SECONDS = 0.2
POLL_SECONDS = 0.02
KILL_SECONDS_MAX = 10.0

T = TypeVar("T")


class EngineVessel(ServerBackend):
    """What is the same for all containers."""

    def __init__(
        self, title: str, folder: Path, options: Mapping[str, str], name: str, *, log_name: str = "server.log"
    ) -> None:
        super().__init__(title, folder, options, log_name=log_name)
        self._name = name
        self._pid: int | None = None
        self._ended: str | None = None
        self._asked_at = 0.0
        # A task that was cancelled leaves its call under way: the next one waits for it.
        self._one_at_a_time = threading.Lock()

    async def _call(self, work: Callable[..., T], *arguments: object) -> T:
        """Do this work in a thread, after what is under way."""
        return await asyncio.to_thread(self._alone, work, *arguments)

    async def _do(self, what: str, work: Callable[..., object], *arguments: object) -> None:
        """Do the same; raises `ServerUnreachableError` that says what could not be done."""
        try:
            await self._call(work, *arguments)
        except FAILURES as error:
            raise ServerUnreachableError(
                f"container {self._name} cannot be {what} ({one_line(error)}); see what the Docker engine says"
            ) from error

    @property
    def pid(self) -> int | None:
        return self._pid

    async def how_it_ended(self) -> str | None:
        now = time.monotonic()
        if now - self._asked_at >= ASK_SECONDS:
            self._asked_at = now
            # An engine that gives no answer says nothing about the server.
            with contextlib.suppress(*FAILURES):
                await self._call(self._look)
        return self._ended

    async def end(self, seconds: float) -> None:
        await self._do("stopped", self._end, int(seconds))

    async def kill(self) -> None:
        await self._do("killed", self._kill)

    async def freeze(self) -> None:
        await self._do("paused", self._pause)

    async def thaw(self) -> None:
        await self._do("resumed", self._unpause)

    async def last_words(self, lines_max: int = 3) -> str:
        """Return the end of its log in one line; nothing where the engine does not tell."""
        try:
            told = await self._call(self._log, lines_max)
        except FAILURES:
            return ""
        return "; ".join(" ".join(line.split()) for line in told.splitlines() if line.strip())

    # In threads ---------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _look(self) -> object:
        """Ask how the container is: its process, and how it ended if it has."""

    @abc.abstractmethod
    def _end(self, seconds: int) -> None: ...

    @abc.abstractmethod
    def _kill(self) -> None: ...

    @abc.abstractmethod
    def _pause(self) -> None: ...

    @abc.abstractmethod
    def _unpause(self) -> None: ...

    @abc.abstractmethod
    def _log(self, lines_max: int) -> str: ...

    def _alone(self, work: Callable[..., T], *arguments: object) -> T:
        with self._one_at_a_time:
            return work(*arguments)
