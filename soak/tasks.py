"""Ending background tasks for certain, and waiting until something holds.

`asyncio.wait_for`, which client libraries use below us, loses a cancellation that arrives together with its result
(Python 3.11). A task in a loop then goes on as if nobody had asked, so asking once is not enough.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

ASK_AGAIN_SECONDS = 0.5
ASK_TIMES_MAX = 20


def raise_if_cancelled() -> None:
    """Raise `CancelledError` if this task was cancelled and something below has swallowed it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def end_tasks(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel tasks until they have ended; what they raise is dropped."""
    left = {task for task in tasks if not task.done()}
    for _ in range(ASK_TIMES_MAX):
        if not left:
            return
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=ASK_AGAIN_SECONDS)
        for task in done:
            if not task.cancelled():
                task.exception()


async def until(holds: Callable[[], Awaitable[bool]], seconds: float, poll_seconds: float) -> bool:
    """Ask until it holds; returns False if it still does not after this time."""
    deadline = time.monotonic() + seconds
    while not await holds():
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(poll_seconds)
    return True
