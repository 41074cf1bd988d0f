"""The verifier's Redis client: redis-py's own connections, so that a bug in the load's client cannot hide from both.

It shares no code with `redis_wire`: hiredis, as redis-py uses it, packs the commands and parses the replies. Commands
that are issued while a connection is free leave together in one write; while all are busy they gather for the next one.
Nothing is sent a second time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ReadOnlyError, RedisError, ResponseError

from soak.answer_bounds import BoundedParser
from soak.hosts import SentinelAddress
from soak.redis_sentinel import PrimaryPool, primary_pool
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

CONNECTIONS_MAX = 2
"""While one waits for a large reply, the other serves."""
BATCH_MAX = 256
"""Commands that leave in one write."""
WAITING_MAX = 65_536
"""Commands waiting for a connection; one more is refused at once."""

_ADDRESS = frozenset({"host", "port", "path", "username", "password", "db"})
"""The parts of a URL that say where the server is and who logs in."""


class _Waiting(NamedTuple):
    commands: Sequence[tuple[Argument, ...]]
    reply: asyncio.Future[Any]
    leads: bool = False
    """The next command must follow it on the same connection."""
    gathers: bool = False
    """The reply is a list of those to all of its commands."""


class RedisReader:
    """Sends commands in batches over a few of redis-py's connections; dials again when one was lost."""

    def __init__(
        self,
        address: RedisAddress | SentinelAddress,
        *,
        connections_max: int,
        timeout_seconds: float,
        reads_replicas: bool = False,
    ) -> None:
        """`reads_replicas`: connect to a replica that sentinels name, and not to the primary."""
        self.address = address
        self._reads_replicas = reads_replicas
        self._pool: PrimaryPool | None = None
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._connections = [self._make() for _ in range(max(1, min(connections_max, CONNECTIONS_MAX)))]
        self._idle = list(self._connections)
        self._waiting: deque[_Waiting] = deque()
        self._exchanges: set[asyncio.Task[None]] = set()
        self._is_dispatch_due = False
        self._is_closed = False

    def _make(self) -> AbstractConnection:
        ours: dict[str, Any] = {
            "client_name": CLIENT_NAME,
            "parser_class": BoundedParser,
            "protocol": 2,
            "socket_timeout": None,  # one timer per batch, see `_exchange`
        }
        connection: AbstractConnection
        if isinstance(self.address, SentinelAddress):
            ours["is_master"] = not self._reads_replicas
            self._pool = self._pool or primary_pool(self.address, timeout_seconds=self._timeout_seconds, **ours)
            connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
            return connection
        given: dict[str, Any] = dict(parse_url(self.address.url))
        options = {name: value for name, value in given.items() if name in _ADDRESS or name.startswith("ssl_")}
        options.update(ours, retry=Retry(NoBackoff(), 0), socket_connect_timeout=self._timeout_seconds)
        connection = given.get("connection_class", Connection)(**options)
        return connection

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Send a command; awaiting the result gives the reply."""
        return self._enqueue((command,))

    def execute_together(self, commands: Sequence[tuple[Argument, ...]]) -> Awaitable[list[Any]]:
        """Send commands, one right behind the other; awaiting the result gives the reply or the error of each."""
        return self._enqueue(commands, gathers=True)

    def execute_both(
        self, command: tuple[Argument, ...], then: tuple[Argument, ...]
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Send two commands, the second right behind the first on the same connection."""
        return self._enqueue((command,), leads=True), self._enqueue((then,))

    def _enqueue(
        self, commands: Sequence[tuple[Argument, ...]], *, leads: bool = False, gathers: bool = False
    ) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = self._loop.create_future()
        if self._is_closed or len(self._waiting) >= WAITING_MAX:
            why = "the connections are closed" if self._is_closed else f"{WAITING_MAX} commands are waiting already"
            reply.set_exception(NotSentError(f"{self.address}: {why}: not sent"))
            return reply
        self._waiting.append(_Waiting(commands, reply, leads, gathers))
        if self._idle and not self._is_dispatch_due:
            self._is_dispatch_due = True
            self._loop.call_soon(self._dispatch)
        return reply

    async def connect(self) -> None:
        """Make sure that the server is there and lets us in."""
        await self._connect(self._connections[0])

    async def close(self) -> None:
        """Drop the connections. What is under way on them fails."""
        self._is_closed = True
        for task in self._exchanges:
            task.cancel()
        if self._exchanges:
            await asyncio.wait(self._exchanges)
        for connection in self._connections:
            await connection.disconnect(nowait=True)
        if self._pool is not None:
            await self._pool.disconnect()
        _fail(self._waiting, NotSentError(f"the connections to {self.address} are closed: not sent"))

    def _dispatch(self) -> None:
        self._is_dispatch_due = False
        while self._waiting and self._idle and not self._is_closed:
            count = min(len(self._waiting), BATCH_MAX)
            batch = deque(self._waiting.popleft() for _ in range(count))
            while batch[-1].leads and self._waiting:
                batch.append(self._waiting.popleft())
            task = self._loop.create_task(self._exchange(self._idle.pop(), batch))
            self._exchanges.add(task)
            task.add_done_callback(self._exchanges.discard)

    async def _exchange(self, connection: AbstractConnection, batch: deque[_Waiting]) -> None:
        """Send a batch and give each command its reply; an error goes to all that have none yet."""
        # Whoever gave up while waiting is not asked for.
        batch = deque(one for one in batch if not one.reply.done())
        is_sent = False
        try:
            # A server that closed the connection, or said something unasked, is dialled again.
            if not connection.is_connected or await connection.can_read():
                await connection.disconnect(nowait=True)
                await self._connect(connection)
            async with asyncio.timeout(self._timeout_seconds) as limit:
                packed = b"".join(pack_command(command) for one in batch for command in one.commands)  # type: ignore[arg-type]  # its stub says one
                is_sent = True
                await connection.send_packed_command(packed)
                is_demoted = await self._take_replies(connection, batch, limit)
            if is_demoted:
                await connection.disconnect(nowait=True)  # sentinels are asked when it connects
        except BaseException as error:
            await connection.disconnect(nowait=True)
            _fail(batch, self._failure(error, is_sent=is_sent))
            if not isinstance(error, Exception):
                raise
        finally:
            self._idle.append(connection)
            self._dispatch()

    async def _take_replies(
        self, connection: AbstractConnection, batch: deque[_Waiting], limit: asyncio.Timeout
    ) -> bool:
        """Read the replies in the order of the commands. A server that goes on answering is waited for.

        Returns whether it refused a write because it is a replica now.
        """
        is_demoted = False
        answers: list[Any] = []
        refresh_seconds = self._loop.time() + self._timeout_seconds / 4
        while batch:
            try:
                answer = await connection.read_response()
            except ResponseError as error:
                answer = error
                is_demoted = is_demoted or isinstance(error, ReadOnlyError)
            answers.append(reply_error(answer) if isinstance(answer, ResponseError) else answer)
            if len(answers) == len(batch[0].commands):
                _give(batch.popleft(), answers)
                answers = []
            if (now := self._loop.time()) > refresh_seconds:
                limit.reschedule(now + self._timeout_seconds)
                refresh_seconds = now + self._timeout_seconds / 4
        return is_demoted

    async def _connect(self, connection: AbstractConnection) -> None:
        """Dial and log in. Any failure means that nothing was sent on behalf of a caller."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await connection.connect()  # type: ignore[no-untyped-call]  # redis-py leaves it without types
                await connection.send_command("PING")
                pong = await connection.read_response()
        except (AuthenticationError, NoPermissionError) as error:
            raise LoginRefusedError(str(error)) from error
        except TimeoutError as error:
            raise NotSentError(f"no connection within {self._timeout_seconds:g}s") from error
        except (RedisError, OSError) as error:
            raise NotSentError(str(error) or type(error).__name__) from error
        if pong != b"PONG":
            await connection.disconnect(nowait=True)
            raise NotSentError(f"it answers PING with {pong!r:.40}, so it is no Redis; check the address")

    def _failure(self, error: BaseException, *, is_sent: bool) -> Exception:
        if isinstance(error, NotSentError):
            return error
        if isinstance(error, TimeoutError):
            return CommandTimedOutError(f"no reply from {self.address} within {self._timeout_seconds:g}s")
        why = str(error) or type(error).__name__
        if not is_sent:
            return NotSentError(f"no connection to {self.address}: {why}")
        lost = ConnectionLostError(f"connection to {self.address} was lost before the reply came ({why})")
        lost.__cause__ = error
        return lost


def reply_error(error: ResponseError) -> ReplyError:
    """Return the error as the server sent it: redis-py cuts off the code in front of those it knows."""
    return ReplyError(f"{error.status_code} {error}" if error.status_code else str(error))


def _give(waiting: _Waiting, answers: list[Any]) -> None:
    if waiting.reply.done():
        return
    if waiting.gathers:
        waiting.reply.set_result(answers)
    elif isinstance(answers[0], ReplyError):
        waiting.reply.set_exception(answers[0])
    else:
        waiting.reply.set_result(answers[0])


def _fail(batch: deque[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.reply.done():
            waiting.reply.set_exception(error)
    batch.clear()
