"""A bounded set of asyncpg connections, each with its prepared statements.

What one must know before touching it:

- asyncpg's own pool wraps, resets and shields a connection on every use, which costs more than the statement. Here
  every use is one statement or one whole transaction, so there is no session state to reset: a connection comes
  back clean, or, after anything unclear (timeout, cancellation, lost), is thrown away.
- There is no timer per statement. All have the same limit, so one timer that looks at the oldest is enough; a
  connection that is late is cut, which wakes its user with an error.
- What fails before a statement is sent is certain (`NotApplied`): no connection, none free in time, not preparable.
- Behind a pooler (pgbouncer) in transaction mode the next transaction may run on another backend, which knows no
  statement of ours. There each statement is parsed anew, without a name: asyncpg asks for no end of the transaction
  between parsing and executing, so both happen on one backend. What the pooler refuses (no backend, none in time)
  fails while it is parsed, and so is certain.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from soak.answer_bounds import TOO_LARGE
from soak.checker.outcome import NotApplied
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.hosts import HostPort, hosts_of
from soak.postgres_bounds import AnswerTooLargeError, Bounded, bounded_answers
from soak.servers.kinds import POSTGRES
from soak.stores.protocol import StoreContext

_CONNECT_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_STALE_STATEMENT_CLASSES = frozenset({"0A", "26"})
"""A prepared statement that no longer fits: the connection is of no use any more."""
_DIAL_SECONDS_MIN = 0.001


class _Link:
    """A connection, what is prepared on it, and until when its present user may have it."""

    __slots__ = ("bounded", "connection", "deadline_seconds", "is_late", "is_pooled", "statements")

    def __init__(self, connection: Any, bounded: Bounded, *, is_pooled: bool) -> None:
        self.connection = connection
        self.bounded = bounded
        self.is_pooled = is_pooled
        """Whether a pooler is in between, so that nothing outlives a transaction."""
        self.statements: dict[str, Any] = {}
        self.deadline_seconds = math.inf
        self.is_late = False


class PostgresPool:
    """Connections to one server, made when needed, the last used first."""

    def __init__(self, url: str, *, address: str, connections_max: int, timeout_seconds: float) -> None:
        self.address = address
        self._url = url
        self._connections_max = connections_max
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._places_taken = 0
        self._links: set[_Link] = set()
        self._idle: list[_Link] = []
        self._waiting: deque[tuple[float, asyncio.Future[_Link | None]]] = deque()
        self._watchdog: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def connect(self) -> None:
        """Make sure that the server is there and lets us in."""
        self._give_back(await self._acquire())

    async def execute(self, query: str, *arguments: object) -> None:
        """Run one statement that writes; `NotApplied` is raised where it certainly left nothing behind."""
        link = self._take_idle() or await self._acquire()
        is_sent = False
        try:
            statement = link.statements.get(query) or await self._prepare(link, query)
            is_sent = True
            await statement.fetch(*arguments)
        except BaseException as error:
            self._give_back_after(error, link)
            if is_certainly_not_applied(error) or (isinstance(error, Exception) and not is_sent):
                raise RolledBackError(_text(error)) from error
            self._raise_what_we_did(link, error)
            raise
        self._give_back(link)

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        """Run one statement that reads."""
        link = self._take_idle() or await self._acquire()
        try:
            statement = link.statements.get(query) or await self._prepare(link, query)
            rows: Sequence[Any] = await statement.fetch(*arguments)
        except BaseException as error:
            self._give_back_after(error, link)
            self._raise_what_we_did(link, error)
            raise
        self._give_back(link)
        return rows

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Give a connection inside a transaction. An error before the commit is sent leaves nothing behind."""
        link = self._take_idle() or await self._acquire()
        is_committing = False
        try:
            await link.connection.execute("BEGIN")
            yield link.connection
            is_committing = True
            await link.connection.execute("COMMIT")
        except BaseException as error:
            # No ROLLBACK, which might hang where the statement did: hanging up undoes it as well.
            self._throw_away(link)
            if isinstance(error, Exception) and (not is_committing or is_certainly_not_applied(error)):
                reason = str(self._timed_out()) if link.is_late else _text(error)
                raise RolledBackError(reason) from error
            self._raise_what_we_did(link, error)
            raise
        self._give_back(link)

    async def close(self) -> None:
        """Close the idle connections; those in use are thrown away when they come back."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for link in idle:
            self._links.discard(link)
            with contextlib.suppress(*_CONNECT_ERRORS):
                await link.connection.close(timeout=self._timeout_seconds)
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._watchdog is not None and not self._links:
            self._watchdog.cancel()

    # Getting a connection and giving it back.

    def _take_idle(self) -> _Link | None:
        while self._idle:
            link = self._idle.pop()
            if not link.connection.is_closed():
                self._start_clock(link, self._loop.time() + self._timeout_seconds)
                return link
            self._links.discard(link)
            self._places_taken -= 1
        return None

    async def _acquire(self) -> _Link:
        """Make a connection, or wait for one to come back, within the limit of the whole operation."""
        deadline_seconds = self._loop.time() + self._timeout_seconds
        link: _Link | None = None
        if self._places_taken < self._connections_max:
            self._places_taken += 1
        else:
            link = await self._wait_for_turn(deadline_seconds)
        if link is None:
            link = await self._make(deadline_seconds)
        self._start_clock(link, deadline_seconds)
        return link

    async def _wait_for_turn(self, deadline_seconds: float) -> _Link | None:
        """Return a connection that came back, or None: the slot of one that was lost."""
        turn: asyncio.Future[_Link | None] = self._loop.create_future()
        self._waiting.append((deadline_seconds, turn))
        self._watch(deadline_seconds)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It was our turn just when we stopped waiting.
                self._pass_on(turn.result())
            raise

    async def _make(self, deadline_seconds: float) -> _Link:
        try:
            with bounded_answers() as bounded:
                connection, is_pooled = await self._dial(deadline_seconds, bounded)
                link = _Link(connection, bounded, is_pooled=is_pooled)
        except BaseException:
            self._pass_on(None)
            raise
        self._links.add(link)
        return link

    async def _dial(self, deadline_seconds: float, bounded: Bounded) -> tuple[Any, bool]:
        """Return a connection, and whether it leads through a pooler."""
        if self._is_closed:
            raise NotConnectedError(f"the connections to {self.address} are closed: not sent")
        try:
            async with asyncio.timeout_at(max(deadline_seconds, self._loop.time() + _DIAL_SECONDS_MIN)):
                connection = await asyncpg.connect(
                    self._url,
                    timeout=None,
                    statement_cache_size=0,  # what is prepared is kept here, and behind a pooler nothing is
                    server_settings={"application_name": "soak"},
                )
                try:
                    return connection, await is_behind_pooler(connection)
                except BaseException:
                    connection.terminate()
                    raise
        except _CONNECT_ERRORS as error:
            reason = (
                TOO_LARGE if bounded.is_too_large else str(error) or f"no connection within {self._timeout_seconds:g}s"
            )
            raise NotConnectedError(f"no connection to {self.address}: {reason}") from error

    async def _prepare(self, link: _Link, query: str) -> Any:
        if link.is_pooled:
            return await link.connection.prepare(query, name="")
        name = f"soak_{len(link.statements)}"  # without one it would be parsed anew each time
        statement = link.statements[query] = await link.connection.prepare(query, name=name)
        return statement

    def _give_back(self, link: _Link) -> None:
        link.deadline_seconds = math.inf
        if self._is_closed or link.is_late:
            self._throw_away(link)
        elif self._waiting:
            self._pass_on(link)
        else:
            self._idle.append(link)

    def _give_back_after(self, error: BaseException, link: _Link) -> None:
        # An error the server answered with leaves the connection clean; after anything else nobody knows.
        state = getattr(error, "sqlstate", None) or ""
        is_clean = isinstance(error, asyncpg.PostgresError) and not link.connection.is_closed()
        if is_clean and state[:2] not in _STALE_STATEMENT_CLASSES:
            self._give_back(link)
        else:
            self._throw_away(link)

    def _throw_away(self, link: _Link) -> None:
        link.deadline_seconds = math.inf
        link.connection.terminate()
        self._links.discard(link)
        self._pass_on(None)

    def _pass_on(self, link: _Link | None) -> None:
        """Give a connection, or the slot of a lost one, to the caller that waits longest."""
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(link)
                return
        if link is None:
            self._places_taken -= 1
        else:
            self._idle.append(link)

    # The limit.

    def _start_clock(self, link: _Link, deadline_seconds: float) -> None:
        link.deadline_seconds = deadline_seconds
        link.bounded.begin_answer()
        if self._watchdog is None:
            self._watch(deadline_seconds)

    def _watch(self, at_seconds: float) -> None:
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(at_seconds, self._look_for_late)

    def _look_for_late(self) -> None:
        self._watchdog = None
        now = self._loop.time()
        next_seconds = math.inf
        for link in self._links:
            if link.deadline_seconds <= now:
                link.is_late = True
                link.deadline_seconds = math.inf
                link.connection.terminate()
            next_seconds = min(next_seconds, link.deadline_seconds)
        while self._waiting and (self._waiting[0][0] <= now or self._waiting[0][1].done()):
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(
                    PoolExhaustedError(
                        f"all {self._connections_max} connections to {self.address} were in use for "
                        f"{self._timeout_seconds:g}s: not sent"
                    )
                )
        if self._waiting:
            next_seconds = min(next_seconds, self._waiting[0][0])
        if next_seconds < math.inf:
            self._watch(next_seconds)

    def _raise_what_we_did(self, link: _Link, error: BaseException) -> None:
        """Say why, where the connection was lost because we cut it."""
        if link.is_late:
            raise self._timed_out() from error
        if link.bounded.is_too_large:
            raise AnswerTooLargeError(f"{self.address}: {TOO_LARGE}") from error

    def _timed_out(self) -> TimeoutError:
        return TimeoutError(f"no answer from {self.address} within {self._timeout_seconds:g}s")


async def is_behind_pooler(connection: Any) -> bool:
    """Say whether another process serves the connection than the one that the login named, as pgbouncer does it."""
    return bool(await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid())


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


# How a PostgreSQL server is called in messages: never with its password.


_LOGIN_ERRORS = (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)


def address_of(context: StoreContext, kind: str) -> tuple[str, str]:
    """Return the URL of a configured server, and the form of it that may be shown."""
    url = context.servers.get(kind)
    if url is None:
        raise UsageError(f"no {kind} server is configured; give its address in servers.{kind.replace('-', '_')}")
    try:
        parts, hosts = urlsplit(url), hosts_of(url)
    except ValueError:
        parts, hosts = urlsplit(""), ()
    if parts.scheme not in {"postgres", "postgresql"}:
        raise UsageError(
            f"the address of the {kind} server is not understood; write one like postgresql://user:password@127.0.0.1:5432/database"
        )
    named = hosts or (HostPort(parse_qs(parts.query).get("host", ["localhost"])[0], None),)
    return url, f"{','.join(f'{host}:{port or POSTGRES.port}' for host, port in named)}{parts.path}"


def unreachable(address: str, error: BaseException) -> SoakError:
    """Say why the server cannot be used, and what to do."""
    cause = error.__cause__ or error
    if isinstance(cause, _LOGIN_ERRORS):
        return ServerUnreachableError(
            f"the PostgreSQL server at {address} refuses the login ({cause}); check user and password in its address"
        )
    if isinstance(cause, asyncpg.InvalidCatalogNameError):
        return ServerUnreachableError(
            f"the PostgreSQL server at {address} has no such database; create it or correct the address"
        )
    reason = _one_line(cause)
    return ServerUnreachableError(
        f"the PostgreSQL server at {address} cannot be used ({reason}); check that it runs and its address is right"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# What a failure of PostgreSQL says about the write that met it.


_ROLLED_BACK_CLASSES = frozenset({
    "0A",  # not supported
    "22",  # bad data
    "23",  # a constraint
    "25",  # transaction state: a read-only server, most of all
    "26",  # a prepared statement is gone
    "3D", "3F",  # no such database or schema
    "40",  # serialization failure, deadlock
    "42",  # syntax, privileges, no such table
    "53",  # out of disk, memory or connections
    "54",  # beyond a limit of the server
    "55",  # a lock that could not be had
})  # fmt: skip
_COMPLETION_UNKNOWN = "40003"


class NotConnectedError(NotApplied):
    """No connection could be made: nothing was sent."""

    of_server = True


class PoolExhaustedError(NotApplied):
    """No connection became free in time: nothing was sent."""

    of_server = True


class RolledBackError(NotApplied):
    """The server refused the statement and undid it."""


def is_certainly_not_applied(error: BaseException) -> bool:
    """Whether the statement that met this error left nothing behind.

    Only what the server calls an ERROR counts. A FATAL or PANIC may reach us while the commit is already on its way
    to disk, and a lost connection says nothing at all.
    """
    if not isinstance(error, asyncpg.PostgresError):
        return False
    severity = getattr(error, "severity_en", None) or getattr(error, "severity", None)
    if severity is None and isinstance(error, asyncpg.DataError):
        return True  # not from the server: an argument that could not be encoded, found before sending
    state = getattr(error, "sqlstate", None) or ""
    return severity == "ERROR" and state[:2] in _ROLLED_BACK_CLASSES and state != _COMPLETION_UNKNOWN
