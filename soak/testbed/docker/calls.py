"""Calls to the Docker engine about one container: in threads, for its client waits, and one at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from soak.errors import ServerUnreachableError
from soak.testbed.docker.engine import FAILURES, one_line

T = TypeVar("T")


class ContainerCalls:
    """What asks the engine about one container."""

    def __init__(self, name: str) -> None:
        self._name = name
        # A task that was cancelled leaves its call under way: the next one waits for it.
        self._one_at_a_time = threading.Lock()

    async def call(self, work: Callable[..., T], *arguments: object) -> T:
        """Do this work in a thread, after what is under way."""
        return await asyncio.to_thread(self._alone, work, *arguments)

    async def do(self, what: str, work: Callable[..., object], *arguments: object) -> None:
        """Do the same; raises `ServerUnreachableError` that says what could not be done."""
        try:
            await self.call(work, *arguments)
        except FAILURES as error:
            raise ServerUnreachableError(
                f"container {self._name} cannot be {what} ({one_line(error)}); see what the Docker engine says"
            ) from error

    async def last_words(self, log: Callable[[int], str], lines_max: int) -> str:
        """Return the end of its log in one line; nothing where the engine does not tell."""
        try:
            told = await self.call(log, lines_max)
        except FAILURES:
            return ""
        return "; ".join(" ".join(line.split()) for line in told.splitlines() if line.strip())

    def _alone(self, work: Callable[..., T], *arguments: object) -> T:
        with self._one_at_a_time:
            return work(*arguments)
