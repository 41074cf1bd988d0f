"""Reads of the ends of many sessions, in one statement.

A turn begins with such a read, and turns begin many at once: together their reads cost little more than one alone. Each
was asked for before the statement is sent, so each sees what had been acknowledged by then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import asyncpg

from soak.postgres_bounds import AnswerTooLargeError
from soak.stores.postgres_pool import PostgresPool

TOGETHER_MAX = 64
"""So many in one statement: the answer has a limit, and a late one holds up all of them."""


class _Asked(NamedTuple):
    """The end of one session, and who waits for it."""

    session: bytes
    last: int
    bodies: asyncio.Future[Sequence[bytes]]


class SessionEnds:
    """Reads the ends of sessions through a pool; what is asked for in one turn of the loop leaves together."""

    def __init__(self, pool: PostgresPool, one: str, many: str) -> None:
        """`one` and `many` are the statements for one session, and for several."""
        self._pool = pool
        self._one = one
        self._many = many
        self._loop = asyncio.get_running_loop()
        self._asked: deque[_Asked] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    def read(self, session: bytes, last: int) -> asyncio.Future[Sequence[bytes]]:
        """Ask for the last so many messages of a session; awaiting the result gives them, newest last."""
        bodies: asyncio.Future[Sequence[bytes]] = self._loop.create_future()
        if not self._asked:
            self._loop.call_soon(self._send)
        self._asked.append(_Asked(session, last, bodies))
        return bodies

    def _send(self) -> None:
        while self._asked:
            batch = [self._asked.popleft() for _ in range(min(len(self._asked), TOGETHER_MAX))]
            task = self._loop.create_task(self._exchange(batch))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _exchange(self, batch: list[_Asked]) -> None:
        """Give each its answer. What was refused is asked for one by one: it may be about one of them only."""
        try:
            if len(batch) == 1:
                rows = await self._pool.fetch(self._one, batch[0].session, batch[0].last)
                _answer(batch[0], [row[0] for row in rows])
                return
            rows = await self._pool.fetch(self._many, [one.session for one in batch], [one.last for one in batch])
            for asked, (newest_first,) in zip(batch, rows, strict=True):
                _answer(asked, newest_first[::-1])
        except BaseException as error:
            if len(batch) > 1 and _may_be_about_one(error):
                await asyncio.gather(*(self._exchange([asked]) for asked in batch))
                return
            for asked in batch:
                if not asked.bodies.done():
                    asked.bodies.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise


def _answer(asked: _Asked, bodies: Sequence[bytes]) -> None:
    if not asked.bodies.done():  # whoever gave up is not answered
        asked.bodies.set_result(bodies)


def _may_be_about_one(error: BaseException) -> bool:
    """Whether the server answered, or began to; one that is away, or says nothing, does so for all of them."""
    if isinstance(error, asyncpg.PostgresError):
        return (getattr(error, "severity_en", None) or getattr(error, "severity", None)) == "ERROR"
    return isinstance(error, AnswerTooLargeError)
