"""Reads of the ends of sessions: many leave in one statement, and what is wrong with one of them hits no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from soak.postgres_bounds import AnswerTooLargeError
from soak.stores.postgres_ends import TOGETHER_MAX, SessionEnds


def refusal(severity: str) -> asyncpg.PostgresError:
    return asyncpg.PostgresError.new({"S": severity, "V": severity, "C": "XX001", "M": "a page is damaged"})


class OneBadSession:
    """A pool that raises where it is asked for the bad session, alone or among others."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked: list[int] = []

    async def fetch(self, query: str, *arguments: object) -> list[tuple[object]]:
        names = arguments[0] if query == "many" else [arguments[0]]
        assert isinstance(names, list)
        self.asked.append(len(names))
        if b"bad" in names:
            raise self.error
        rows: list[tuple[object]] = [([b"2 " + name, b"1 " + name],) for name in names]
        return rows if query == "many" else [(b"1 " + names[0],), (b"2 " + names[0],)]


async def read(pool: object, *names: bytes) -> list[object]:
    ends = SessionEnds(pool, "one", "many")  # type: ignore[arg-type]
    return await asyncio.gather(*(ends.read(name, 2) for name in names), return_exceptions=True)


async def test_what_is_asked_for_in_one_turn_of_the_loop_leaves_together() -> None:
    pool = OneBadSession(refusal("ERROR"))
    names = [b"%d" % number for number in range(TOGETHER_MAX + 1)]
    assert await read(pool, *names) == [[b"1 " + name, b"2 " + name] for name in names]
    assert pool.asked == [TOGETHER_MAX, 1]


@pytest.mark.parametrize("error", [lambda: refusal("ERROR"), lambda: AnswerTooLargeError("too much")])
async def test_one_session_that_cannot_be_read_holds_up_no_other(error: Callable[[], Exception]) -> None:
    pool = OneBadSession(error())
    assert await read(pool, b"good", b"bad", b"fine") == [
        [b"1 good", b"2 good"],
        pool.error,
        [b"1 fine", b"2 fine"],
    ]


@pytest.mark.parametrize("error", [lambda: refusal("FATAL"), lambda: TimeoutError("late"), lambda: OSError("gone")])
async def test_a_server_that_is_away_is_not_asked_once_more_for_each(error: Callable[[], Exception]) -> None:
    pool = OneBadSession(error())
    assert await read(pool, b"good", b"bad") == [pool.error, pool.error]
    assert pool.asked == [2]


async def test_who_stops_waiting_takes_nobody_along() -> None:
    ends = SessionEnds(OneBadSession(OSError()), "one", "many")  # type: ignore[arg-type]
    impatient, patient = ends.read(b"left", 2), ends.read(b"good", 2)
    impatient.cancel()
    assert await patient == [b"1 good", b"2 good"]
