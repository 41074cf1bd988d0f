"""The load's Redis client: a few connections to one server, shared by everybody in the process.

Few, because each holds many commands at once: more connections only make smaller batches, and so more work per
command. When none has room the command waits in line, and after the limit fails; it is never skipped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any

from soak.stores.redis_client import Argument, CommandTimedOutError, NotSentError, RedisAddress
from soak.stores.redis_wire import RedisConnection, pack

CONNECTIONS_MAX = 4
"""Beyond this, more connections cost more than they bring."""
LINE_MAX = 65_536
"""Commands waiting for a connection with room; one more is refused at once."""
DIAL_PACE_SECONDS = 0.05
"""A server that is away is not dialled more often than this, per connection."""


class _Slot:
    """One of the connections, or the attempt to make it."""

    __slots__ = ("connection", "dial", "dial_not_before_seconds")

    def __init__(self) -> None:
        self.connection: RedisConnection | None = None
        self.dial: asyncio.Task[None] | None = None
        self.dial_not_before_seconds = 0.0

    @property
    def is_ready(self) -> bool:
        return self.connection is not None and self.connection.is_ready


class _Waiting:
    """A command in the queue; once it is with a connection, its fate is no longer certain."""

    __slots__ = ("is_sent", "packed", "reply")

    def __init__(self, packed: bytes, reply: asyncio.Future[Any]) -> None:
        self.packed = packed
        self.reply = reply
        self.is_sent = False


class RedisPool:
    """Sends commands over the least busy connection; dials again when one was lost, but never resends."""

    def __init__(self, address: RedisAddress, *, connections_max: int, timeout_seconds: float) -> None:
        self.address = address
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._slots = [_Slot() for _ in range(max(1, min(connections_max, CONNECTIONS_MAX)))]
        self._filling: RedisConnection | None = None
        self._line: deque[_Waiting] = deque()
        self._is_closed = False

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Send a command; awaiting the result gives the reply."""
        packed = pack(*command)
        # Commands of one turn of the loop go out together: stay with the connection that is being filled.
        connection = self._filling
        if connection is None or not connection.has_open_batch or not connection.has_room:
            connection = self._filling = self._least_busy()
        if connection is None or self._line:
            return self._wait_in_line(packed)
        return connection.send(packed)

    async def connect(self) -> None:
        """Make sure that the server is there and lets us in."""
        slot = self._slots[0]
        slot.connection = await RedisConnection.connect(self.address, self._timeout_seconds, self._advance)

    async def close(self) -> None:
        """Drop the connections. What is under way on them fails."""
        self._is_closed = True
        dials = [slot.dial for slot in self._slots if slot.dial is not None]
        for dial in dials:
            dial.cancel()
        if dials:
            await asyncio.wait(dials)
        for slot in self._slots:
            if slot.connection is not None:
                await slot.connection.close()
        self._refuse_line(f"the connections to {self.address} are closed: not sent")

    def _least_busy(self) -> RedisConnection | None:
        best: RedisConnection | None = None
        for slot in self._slots:
            connection = slot.connection
            if connection is None or not connection.is_ready:
                if slot.dial is None and not self._is_closed:
                    slot.dial = self._loop.create_task(self._dial(slot))
            elif connection.has_room and (best is None or connection.outstanding < best.outstanding):
                best = connection
        return best

    async def _wait_in_line(self, packed: bytes) -> Any:
        if self._is_closed:
            raise NotSentError(f"the connections to {self.address} are closed: not sent")
        if len(self._line) >= LINE_MAX:
            raise NotSentError(f"{LINE_MAX} commands wait for {self.address} already: not sent")
        waiting = _Waiting(packed, self._loop.create_future())
        self._line.append(waiting)
        self._advance()
        try:
            # A reply that is given up here is cancelled, and a cancelled one still in line is never sent.
            async with asyncio.timeout(self._timeout_seconds):
                return await waiting.reply
        except TimeoutError:
            limit = f"within {self._timeout_seconds:g}s"
            if waiting.is_sent:
                raise CommandTimedOutError(f"no reply from {self.address} {limit}") from None
            raise NotSentError(f"no connection to {self.address} had room {limit}: not sent") from None

    def _advance(self) -> None:
        """Hand queued commands to connections, in order, as far as there is room."""
        line = self._line
        while line:
            if line[0].reply.done():
                line.popleft()
                continue
            connection = self._least_busy()
            if connection is None:
                return
            waiting = line.popleft()
            waiting.is_sent = True
            connection.send(waiting.packed, waiting.reply)

    def _refuse_line(self, why: str) -> None:
        line, self._line = self._line, deque()
        for waiting in line:
            if not waiting.reply.done():
                waiting.reply.set_exception(NotSentError(why))

    async def _dial(self, slot: _Slot) -> None:
        try:
            pause_seconds = slot.dial_not_before_seconds - self._loop.time()
            if pause_seconds > 0:
                await asyncio.sleep(pause_seconds)
            slot.dial_not_before_seconds = self._loop.time() + DIAL_PACE_SECONDS
            slot.connection = await RedisConnection.connect(self.address, self._timeout_seconds, self._advance)
        except NotSentError as error:
            if not any(other.is_ready for other in self._slots):
                self._refuse_line(f"no connection to {self.address}: {error}")
        finally:
            slot.dial = None
        self._advance()
