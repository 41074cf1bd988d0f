"""One connection to a Redis server, shared by many callers, that pipelines by itself.

What one must know before touching it:

- Commands issued in one turn of the event loop leave in one write. That alone makes it cheap.
- Replies carry no name: the n-th reply answers the n-th command. A caller that has gone (cancelled, timed out) keeps
  its place in the queue, and its reply is thrown away when it comes.
- A command is "sent" once it is handed to the transport. Before that its failure is certain (`NotSentError`), after
  that it never is. Nothing is ever sent a second time.
- There is no timer per command: the line is first in, first out, and every command has the same limit, so one
  timer that looks at the oldest batch is enough.
- A connection that has answered nothing for the whole limit is dropped: behind a black hole it would never heal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from soak.answer_bounds import TOO_LARGE, Unanswered
from soak.stores.redis_client import (
    CLIENT_NAME,
    Argument,
    CommandTimedOutError,
    ConnectionLostError,
    LoginRefusedError,
    NotSentError,
    RedisAddress,
    ReplyError,
)

IN_FLIGHT_MAX = 1024
"""Commands waiting for a reply on one connection."""

_INCOMPLETE = object()

_LOGIN_CODES = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
_LOGIN_TEXTS = ("ERR AUTH", "ERR invalid password", "ERR invalid username-password")


def pack(*command: Argument) -> bytes:
    """Write a command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub knows commands of one word only
    return packed


class RedisConnection(asyncio.Protocol):
    """A connection in use; made by `connect`, useless once `is_ready` is false."""

    def __init__(self, address: RedisAddress, timeout_seconds: float, on_room: Callable[[], None]) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._on_room = on_room
        self._loop = asyncio.get_running_loop()
        self._create_future = self._loop.create_future
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(replyError=ReplyError, notEnoughData=_INCOMPLETE)
        self._unsent: list[asyncio.Future[Any]] = []
        self._unsent_bytes: list[bytes] = []
        self._unsent_since_seconds = 0.0
        self._in_flight: deque[asyncio.Future[Any]] = deque()
        self._batches: deque[tuple[int, float]] = deque()  # (sent_total after the batch, deadline)
        self._sent_total = 0
        self._answered_total = 0
        self._answered_at_seconds = self._loop.time()
        self._watchdog: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._unanswered = Unanswered()
        self.why_dropped = ""
        self.is_ready = False

    @classmethod
    async def connect(
        cls, address: RedisAddress, timeout_seconds: float, on_room: Callable[[], None]
    ) -> RedisConnection:
        """Dial and log in. Any failure means that nothing was sent on behalf of a caller."""
        connection: RedisConnection | None = None

        def make() -> RedisConnection:
            nonlocal connection
            connection = cls(address, timeout_seconds, on_room)
            return connection

        try:
            async with asyncio.timeout(timeout_seconds):
                made = await address.dial(make)
                await made.log_in()
        except BaseException as error:
            if connection is not None:
                connection.abort()
            if isinstance(error, TimeoutError):
                raise NotSentError(f"no connection within {timeout_seconds:g}s") from error
            if isinstance(error, OSError):
                raise NotSentError(error.strerror or str(error) or type(error).__name__) from error
            if isinstance(error, ConnectionLostError | CommandTimedOutError):
                why = connection.why_dropped if connection is not None else ""
                raise NotSentError(f"connection closed before the login was answered{why}") from error
            raise
        return made

    @property
    def outstanding(self) -> int:
        return len(self._in_flight) + len(self._unsent)

    @property
    def has_room(self) -> bool:
        return self.is_ready and len(self._in_flight) + len(self._unsent) < IN_FLIGHT_MAX

    @property
    def has_open_batch(self) -> bool:
        """Whether a command added now leaves in a write that is due anyway."""
        return bool(self._unsent) and not self._is_paused

    def send(self, packed: bytes, future: asyncio.Future[Any] | None = None) -> asyncio.Future[Any]:
        """Add a packed command to the batch of this turn of the loop, and return the future of its reply."""
        if future is None:
            future = self._create_future()
        if not self._unsent:
            self._unsent_since_seconds = self._loop.time()
            if not self._is_paused:
                self._loop.call_soon(self._flush)
            if self._watchdog is None:
                self._watch(self._unsent_since_seconds + self._timeout_seconds)
        self._unsent.append(future)
        self._unsent_bytes.append(packed)
        return future

    def abort(self) -> None:
        """Drop the connection now; everything under way on it fails."""
        self.is_ready = False
        if self._transport is not None:
            self._transport.abort()

    def _drop(self, why: str) -> None:
        self.why_dropped = f" ({why})"
        self.abort()

    async def close(self) -> None:
        self.abort()
        # The transport reports it in the next turn of the loop; callers still waiting get their error then.
        await asyncio.sleep(0)

    async def log_in(self) -> None:
        """Say who we are; nothing else may be sent before."""
        commands = self._address.login_commands()
        commands += [("CLIENT", "SETNAME", CLIENT_NAME), ("PING",)]
        sent = [self.send(pack(*command)) for command in commands]
        replies = await asyncio.gather(*sent, return_exceptions=True)
        for command, reply in zip(commands, replies, strict=True):
            if command == ("PING",) and not isinstance(reply, BaseException) and reply != b"PONG":
                raise NotSentError(f"it answers PING with {reply!r:.40}, so it is no Redis; check the address")
            if not isinstance(reply, BaseException):
                continue
            text = str(reply)
            if not isinstance(reply, ReplyError):
                raise reply
            if reply.code in _LOGIN_CODES or text.startswith(_LOGIN_TEXTS):
                # Some hosted servers forbid naming a connection; that harms nobody.
                if command[0] in ("CLIENT", "PING") and reply.code == "NOPERM":
                    continue
                raise LoginRefusedError(text) from reply
            raise NotSentError(text) from reply
        self.is_ready = True

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        take = self._in_flight.popleft
        count = 0
        if self._unanswered.is_too_much(data):
            self._drop(TOO_LARGE)
            return
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not _INCOMPLETE:
                future = take()
                count += 1
                if future.done():
                    continue
                if reply.__class__ is ReplyError:
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):
            # Not Redis, or an answer to nothing: from here on no reply can be matched to its command.
            self._drop("what it answers is not understood")
        except MemoryError:
            self._drop(TOO_LARGE)
        if count:
            self._unanswered.bytes = 0
            if reader.has_data():
                self._unanswered.go_on_within()
        self._answered_total = answered = self._answered_total + count
        batches = self._batches
        while batches and batches[0][0] <= answered:
            batches.popleft()
        self._answered_at_seconds = self._loop.time()
        self._on_room()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_ready = False
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        self._fail_unsent(f"connection to {self._address} was lost before the command was sent{self.why_dropped}")
        in_flight, self._in_flight = self._in_flight, deque()
        self._batches.clear()
        for future in in_flight:
            if not future.done():
                lost = ConnectionLostError(
                    f"connection to {self._address} was lost before the reply came{self.why_dropped}"
                )
                lost.__cause__ = error
                future.set_exception(lost)
        self._on_room()

    # What is due.

    def _flush(self) -> None:
        futures = self._unsent
        if not futures or self._is_paused or self._transport is None or self._transport.is_closing():
            return
        packed = self._unsent_bytes
        self._unsent = []
        self._unsent_bytes = []
        self._in_flight.extend(futures)
        self._sent_total += len(futures)
        self._batches.append((self._sent_total, self._unsent_since_seconds + self._timeout_seconds))
        self._transport.write(packed[0] if len(packed) == 1 else b"".join(packed))

    def _watch(self, at_seconds: float) -> None:
        self._watchdog = self._loop.call_at(at_seconds, self._look_for_late)

    def _look_for_late(self) -> None:
        self._watchdog = None
        now = self._loop.time()
        late_total = 0
        while self._batches and self._batches[0][1] <= now:
            late_total = self._batches.popleft()[0]
        # Late callers get an error, but keep their place in the queue.
        for index in range(late_total - self._answered_total):
            future = self._in_flight[index]
            if not future.done():
                future.set_exception(
                    CommandTimedOutError(f"no reply from {self._address} within {self._timeout_seconds:g}s")
                )
        is_stuck_sending = bool(self._unsent) and self._unsent_since_seconds + self._timeout_seconds <= now
        if is_stuck_sending:
            self._fail_unsent(f"{self._address} took nothing for {self._timeout_seconds:g}s: not sent")
        is_silent = self._answered_at_seconds + self._timeout_seconds <= now
        if is_stuck_sending or (late_total > self._answered_total and is_silent):
            self.abort()
            return
        if self._batches:
            self._watch(self._batches[0][1])
        elif self._unsent:
            self._watch(self._unsent_since_seconds + self._timeout_seconds)

    def _fail_unsent(self, why: str) -> None:
        futures, self._unsent, self._unsent_bytes = self._unsent, [], []
        for future in futures:
            if not future.done():
                future.set_exception(NotSentError(why))
