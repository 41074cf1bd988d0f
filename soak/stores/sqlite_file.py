"""Connections to a SQLite file, and the threads that use them.

What one must know before touching it:

1. A call into SQLite blocks its thread, for as long as another process holds the write lock. So it is made in threads
   of its own: native ones, because the load's event loop runs where `threading` is patched by gevent.
2. Writers of one file take turns whatever they do. A process has one thread that writes; a write that waits for the
   lock delays no read, and what still waits in our own queue at its deadline was certainly not begun.
3. Without an answer in time SQLite says "database is locked" and has changed nothing. It is given a little less time
   than the caller, or the caller would give up first and know nothing.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import sqlite3
import sys
import time
from _queue import SimpleQueue  # the one of `queue` is replaced by gevent
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from soak.checker.outcome import NotApplied
from soak.sqlite_address import WAL, SqliteAddress

T = TypeVar("T")

ANSWER_MARGIN_SECONDS = 0.25
"""How much earlier SQLite gives up than the caller."""
_PRIMARY_CODE = 0xFF
_NOT_APPLIED = frozenset(
    {
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_TOOBIG,
    }
)
"""Errors after which the transaction was rolled back, also for whoever reads the log after a crash.

An I/O error is none of them: what could not be synced may be in the log all the same, and be found there.
"""


def connect(address: SqliteAddress, *, timeout_seconds: float, reads_only: bool = False) -> sqlite3.Connection:
    """Open the file; one that is new is made, and keeps a write-ahead log. One that is there is left as it is."""
    mode = "ro" if reads_only else "rwc"
    connection = sqlite3.connect(
        f"file:{quote(str(address.path))}?mode={mode}",
        uri=True,
        timeout=timeout_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute(f"pragma synchronous = {address.synchronous}")
        if not reads_only and not connection.execute("pragma page_count").fetchone()[0]:
            connection.execute(f"pragma journal_mode = {WAL}")
    except BaseException:
        connection.close()
        raise
    return connection


def outcome_of(error: sqlite3.Error) -> Exception:
    """Return what an error of a write says about it: `NotApplied` where that is certain."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code & _PRIMARY_CODE not in _NOT_APPLIED:
        return error
    return NotApplied(str(error))


class _Call:
    __slots__ = ("deadline", "function", "future", "loop", "tokens")

    def __init__(self, function: Callable[[sqlite3.Connection], Any], deadline: float) -> None:
        self.function = function
        self.deadline = deadline
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.tokens = [True]

    def claim(self) -> bool:
        """Whether it is the caller's alone from now on: either it is begun, or given up."""
        try:
            return self.tokens.pop()
        except IndexError:
            return False

    def answer(self, result: Any, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            self.loop.call_soon_threadsafe(self._deliver, result, error)

    def _deliver(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class SqliteThreads:
    """Threads with a connection each, which take calls from one queue."""

    def __init__(
        self, address: SqliteAddress, *, threads: int, timeout_seconds: float, reads_only: bool, keeps_open: bool = True
    ) -> None:
        """Open the file when it is first used; who does not keep it open closes it after each call."""
        self._address = address
        self._threads = threads
        self._timeout_seconds = timeout_seconds
        self._reads_only = reads_only
        self._keeps_open = keeps_open
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._ended: list[_Call] = []

    def start(self) -> None:
        for _ in range(self._threads):
            ended = _Call(lambda _connection: None, 0.0)
            self._ended.append(ended)
            _native("start_new_thread")(self._serve, (ended,))

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call the function with a connection; raises `NotApplied` if it was not begun in time."""
        call = _Call(function, time.monotonic() + self._timeout_seconds)
        self._calls.put(call)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                result: T = await call.future
        except TimeoutError:
            if call.claim():
                raise NotApplied("it waited too long for those before it") from None
            raise
        except asyncio.CancelledError:
            call.claim()
            raise
        return result

    async def close(self) -> None:
        ended, self._ended = self._ended, []
        for _ in ended:
            self._calls.put(None)
        for one in ended:
            await one.future

    def _serve(self, ended: _Call) -> None:
        connection: sqlite3.Connection | None = None
        while (call := self._calls.get()) is not None:
            if not call.claim():
                continue
            try:
                left = max(0.0, call.deadline - time.monotonic() - ANSWER_MARGIN_SECONDS)
                connection = connection or self._connect(left)
                connection.execute(f"pragma busy_timeout = {left * 1000:.0f}")
                result, error = call.function(connection), None
            except BaseException as raised:  # noqa: BLE001  every end of a call goes back to its caller
                result, error = None, raised
            if connection is not None and (error is not None or not self._keeps_open):
                # After an error it is opened anew: the file may be another one now.
                connection.close()
                connection = None
            call.answer(result, error)
            del call, result, error
        if connection is not None:
            connection.close()
        ended.answer(None, None)

    def _connect(self, seconds: float) -> sqlite3.Connection:
        try:
            return connect(self._address, timeout_seconds=seconds, reads_only=self._reads_only)
        except sqlite3.Error as error:
            raise NotApplied(f"{self._address.path} cannot be opened: {error}") from error


def _native(name: str) -> Callable[..., Any]:
    """Return what `_thread` has of this name, also where gevent has put its own in its place."""
    gevent: Any = sys.modules.get("gevent.monkey")
    found: Callable[..., Any] = getattr(_thread, name) if gevent is None else gevent.get_original("_thread", name)
    return found
