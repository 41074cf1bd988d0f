"""A thread with an event loop, in which servers are started, watched and ended.

It outlives the loops of single tests, and the kernel ends the servers with the thread that started them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")

CALL_SECONDS_MAX = 180.0


class Background:
    """Runs coroutines for callers with and without an event loop of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="soak-servers", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run it there and wait, from plain code."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS_MAX)

    async def there(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run it there and wait, from a coroutine of any other loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
        self._loop.close()
