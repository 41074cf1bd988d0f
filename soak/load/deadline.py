"""A limit for every call of a store, without a timer for each.

All calls have the same limit, so the one begun first is due first: a look at the front of a queue a few times a
second finds what is overdue. A timer per call would cost more than all the rest of the bookkeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")

LOOKS_PER_LIMIT = 10


class Deadlines:
    """Cancels calls that take longer than the limit, and makes their callers see a `TimeoutError`."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._due: dict[asyncio.Task[Any], float] = {}
        self._overdue: dict[asyncio.Task[Any], int] = {}
        """How often each was cancelled: a store may swallow a cancellation and go on waiting."""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limit_seconds / LOOKS_PER_LIMIT, self._look)

    async def bounded(self, call: Awaitable[T]) -> T:
        """Await one call of a store within the limit. A task has one such call at a time."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine runs in a task
        self._due[task] = self._loop.time() + self._limit_seconds
        try:
            return await call
        except asyncio.CancelledError:
            if task not in self._overdue:
                raise
            raise TimeoutError("the store did not answer in time") from None
        finally:
            del self._due[task]
            for _ in range(self._overdue.pop(task, 0)):
                task.uncancel()

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        for task, due in self._due.items():
            if due > now:
                break
            self._overdue[task] = self._overdue.get(task, 0) + 1
            task.cancel()
        self._timer = self._loop.call_later(self._limit_seconds / LOOKS_PER_LIMIT, self._look)
