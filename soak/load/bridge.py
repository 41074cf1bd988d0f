"""The bridge between Locust's greenlets and the stores' coroutines.

What one must know before touching it:

1. Locust patches threads, sockets and sleeps; asyncio does not run under that. It runs here, on uvloop, in a
   native thread which gevent knows nothing about. `asyncio.to_thread` does not work on that loop.
2. A thread does not survive a fork, so a bridge is made in the process that uses it and never at import. A forked
   copy notices and refuses calls.
3. Cross-thread wake-ups dominate the cost: system calls on both sides, and contention for the GIL. So
   calls and replies are batched for a millisecond. Operations are timed on the loop and do not see that wait.
4. `CancelledError` is no `Exception`: let out, it would end the Locust user in silence. It is mapped.
5. A greenlet may be killed, or time out, while it waits. Its coroutine is cancelled then; whether its effect
   happened is for the coroutine to find out and record, not for the greenlet.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import gevent
import uvloop
from gevent import monkey
from gevent.hub import Waiter, get_hub
from gevent.timeout import Timeout

T = TypeVar("T")

GATHER_SECONDS = 0.001
"""How long calls and replies are batched before the other side is woken."""
CLOSE_POLL_SECONDS = 0.005

_start_thread = monkey.get_original("_thread", "start_new_thread")
_make_lock = monkey.get_original("_thread", "allocate_lock")


class BridgeClosedError(RuntimeError):
    """The bridge is closed, or was made before a fork."""


class BridgeCancelledError(RuntimeError):
    """The call was cancelled on the loop's side before it had a result."""


class _Call:
    """One coroutine on its way over the bridge and back."""

    __slots__ = ("args", "error", "function", "is_abandoned", "is_done", "result", "task", "waiter")

    def __init__(self, function: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...], waiter: Any) -> None:
        self.function = function
        self.args = args
        self.waiter = waiter
        self.task: asyncio.Task[None] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.is_abandoned = False


class Bridge:
    """Runs coroutines on an asyncio loop in a thread of its own; the calling greenlet waits, the hub goes on."""

    def __init__(self) -> None:
        self.abandoned = 0
        """Results that came after their greenlet had gone."""
        self._hub = get_hub()
        self._calls: deque[_Call | Callable[[], object]] = deque()
        self._answers: deque[_Call] = deque()
        self._running: set[_Call] = set()
        self._loop_is_woken = False
        self._hub_is_woken = False
        self._refusal: str | None = None
        self._wake_hub = self._hub.loop.async_()
        self._wake_hub.start(self._deliver)
        self._gathering = self._hub.loop.timer(GATHER_SECONDS)
        self._is_stopped = _make_lock()
        self._is_stopped.acquire()
        self._loop = uvloop.new_event_loop()
        started = self._hub.loop.async_()
        waiter: Any = Waiter(self._hub)
        started.start(waiter.switch, None)
        _start_thread(self._run_loop, (started.send,))
        waiter.get()
        started.stop()
        started.close()
        _bridges.add(self)

    # The hub's side -----------------------------------------------------------------------------------------

    def call(
        self,
        function: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        timeout_seconds: float | None = None,
    ) -> T:
        """Run the coroutine function on the loop and return what it returns, or raise what it raises."""
        call = _Call(function, args, Waiter(self._hub))
        self._send(call)
        try:
            if timeout_seconds is None:
                call.waiter.get()
            else:
                with Timeout(timeout_seconds, TimeoutError):
                    call.waiter.get()
        except BaseException:
            if not call.is_done:
                call.is_abandoned = True
                self._loop.call_soon_threadsafe(_cancel, call)
            raise
        if call.error is not None:
            try:
                raise call.error
            finally:
                del call  # the error's traceback holds this frame: break the circle
        result: T = call.result
        return result

    def post(self, function: Callable[[], object]) -> None:
        """Run a plain function on the loop some time soon, without waiting for it."""
        self._send(function)

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Let running calls end, cancel those that do not, and deliver every answer before the thread ends."""
        if self._refusal is not None:
            return
        self._refusal = "the bridge is closed"
        self._loop.call_soon_threadsafe(self._receive)
        with Timeout(timeout_seconds, False):  # noqa: FBT003  gevent's way to say: end the block quietly
            while self._running or self._calls:
                gevent.sleep(CLOSE_POLL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        with Timeout(timeout_seconds, False):  # noqa: FBT003
            # A native lock must only be polled here: waiting for it would stop the hub.
            while not self._is_stopped.acquire(False):  # noqa: FBT003
                gevent.sleep(CLOSE_POLL_SECONDS)
        # Only the hub may wake greenlets; it does so before it comes back to us.
        self._hub.loop.run_callback(self._deliver)
        gevent.sleep(0)
        for watcher in (self._wake_hub, self._gathering):
            watcher.stop()
            watcher.close()

    @property
    def is_open(self) -> bool:
        return self._refusal is None

    def _send(self, call: _Call | Callable[[], object]) -> None:
        if self._refusal is not None:
            raise BridgeClosedError(self._refusal)
        self._calls.append(call)
        if not self._loop_is_woken:
            self._loop_is_woken = True
            self._gathering.start(self._loop.call_soon_threadsafe, self._receive)

    def _deliver(self) -> None:
        self._hub_is_woken = False  # before the queue is looked at: an answer that comes now wakes us again
        answers = self._answers
        while answers:
            call = answers.popleft()
            if call.is_abandoned:
                self.abandoned += 1
                continue
            call.is_done = True
            call.waiter.switch(None)

    def _refuse_after_fork(self) -> None:
        self._refusal = "the bridge was made before a fork; make one in the process that uses it"

    # The loop's side ----------------------------------------------------------------------------------------

    def _run_loop(self, started: Callable[[], None]) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.call_soon(started)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            self._is_stopped.release()

    def _receive(self) -> None:
        self._loop_is_woken = False
        calls = self._calls
        create_task = self._loop.create_task
        while calls:
            call = calls.popleft()
            if not isinstance(call, _Call):
                call()
            elif not call.is_abandoned:
                self._running.add(call)
                call.task = create_task(self._run(call))

    async def _run(self, call: _Call) -> None:
        try:
            call.result = await call.function(*call.args)
        except asyncio.CancelledError:
            call.error = BridgeCancelledError("the call was cancelled")
        except BaseException as error:  # noqa: BLE001  every end of a call goes back to its greenlet
            call.error = error
        self._running.discard(call)
        self._answers.append(call)
        if not self._hub_is_woken:
            self._hub_is_woken = True
            self._loop.call_later(GATHER_SECONDS, self._wake_hub.send)


def _cancel(call: _Call) -> None:
    if call.task is not None:
        call.task.cancel()


_bridges: weakref.WeakSet[Bridge] = weakref.WeakSet()


def _refuse_all() -> None:
    for bridge in _bridges:
        bridge._refuse_after_fork()  # noqa: SLF001  the same module


os.register_at_fork(after_in_child=_refuse_all)
