"""When the soak is asked to stop: the first time it drains, the second time it leaves at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LeftError(Exception):
    """Somebody asked twice: whatever was under way is dropped."""


class StopRequest:
    """Remembers that the soak is to stop, why, and how urgently."""

    def __init__(self, on_event: Callable[[str], None] = lambda _text: None) -> None:
        self.requested = asyncio.Event()
        self.urgent = asyncio.Event()
        self.reason = ""
        self._on_event = on_event

    def ask(self, reason: str) -> None:
        """Ask to drain; the first reason is kept."""
        if not self.requested.is_set():
            self.reason = reason
            self.requested.set()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C, SIGTERM and the end of the terminal for as long as the soak runs."""
        loop = asyncio.get_running_loop()
        # Under nohup the end of the terminal is ignored, and stays so.
        taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in taken:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    def _signalled(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            self.urgent.set()
            return
        self.ask(signal.Signals(number).name)
        self._on_event("stopping: the load ends and everything is verified once more; once more to leave at once")

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that a first request already ends, such as starting."""
        return await self._unless(self.requested, work)

    async def unless_urgent(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that only a second request ends, such as draining."""
        return await self._unless(self.urgent, work)

    async def _unless(self, event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise LeftError
        finally:
            for pending in (waiting, task):
                if not pending.done():
                    pending.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await pending
