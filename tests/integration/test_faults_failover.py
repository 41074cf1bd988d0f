"""A replica takes its primary's place: with everything, or too early."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import asyncpg
import pytest

from soak.checker.contract import Contract
from soak.checker.faults import FaultWindow, is_excused
from soak.checker.outcome import Attempt, Outcome
from soak.faults import ALL, during
from tests.support.servers.breaking import PATIENCE_SECONDS, journalled, running, sql

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

LOGGED_AHEAD = 33
"""A sequence logs so many numbers ahead, and loses those it had not used."""
PAIR = ("postgres", "postgres-replica")


async def insert(url: str, acknowledged: list[int]) -> None:
    """Insert until the server is gone; keeps the numbers that the server gave and acknowledged."""
    connection = await asyncpg.connect(url)
    try:
        while True:
            acknowledged.append(await connection.fetchval("insert into told (value) values ('a') returning id"))
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        pass
    finally:
        connection.terminate()


async def rows(url: str) -> list[int]:
    found = await sql(url, "select coalesce(array_agg(id order by id), '{}') from told where value = 'a'")
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("name", ["failover", "early_failover"])
async def test_a_promoted_replica_has_all_that_it_had_received(tmp_path: Path, name: str) -> None:
    fault = ALL[name]
    async with running(tmp_path, *PAIR) as servers:
        primary, replica = (servers.nodes[kind].url for kind in PAIR)
        await sql(primary, "create table told (id serial primary key, value text)")
        acknowledged: list[int] = []
        writing = asyncio.create_task(insert(primary, acknowledged))
        await asyncio.sleep(0.3)
        await fault.inject(servers, "postgres")
        await writing
        # At the same address there is a primary again, before anything is healed.
        found = await rows(primary)
        lost = [number for number in acknowledged if number not in set(found)]
        assert acknowledged
        if name == "failover":
            assert lost == []
        else:
            assert lost
            assert lost == acknowledged[len(acknowledged) - len(lost) :], "a tail, and nothing else"
        again = await sql(primary, "insert into told (value) values ('b') returning id")
        assert isinstance(again, int)
        if len(lost) > LOGGED_AHEAD:
            assert again <= max(acknowledged), "a number that was given out before"
        await fault.heal(servers, "postgres")
        await fault.heal(servers, "postgres")
        await shows(replica, again)
        assert await rows(replica) == found
        assert await sql(replica, "select pg_is_in_recovery()") is True
    async with running(tmp_path, *PAIR) as servers:
        assert await rows(servers.nodes["postgres"].url) == found


async def test_what_an_early_failover_takes_is_excused_by_no_strict_contract(tmp_path: Path, ledger_url: str) -> None:
    async with running(tmp_path, *PAIR) as servers, journalled(ledger_url) as run:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told (id serial primary key, value text)")
        attempts: list[Attempt] = []
        writing = asyncio.create_task(insert_timed(url, attempts))
        await asyncio.sleep(0.3)
        await during(ALL["early_failover"], servers, "postgres", run.journal, 0.0)
        await writing
        start, end = await run.phases()
        found = set(await rows(url))
    window = FaultWindow(
        fault=start.fault,
        kind=start.kind,
        target="postgres",
        excuses=start.excuses,
        promotes=start.promotes,
        started=start.at,
        ended=end.at,
    )
    lost = [attempt for attempt in attempts if attempt.seq not in found]
    assert lost
    assert not any(is_excused(attempt.ended, window, Contract()) for attempt in lost)
    lenient = Contract(failover_loss_seconds=60.0)
    assert all(is_excused(attempt.ended, window, lenient) for attempt in lost)


async def insert_timed(url: str, attempts: list[Attempt]) -> None:
    """Insert until the server is gone; keeps what was acknowledged, and when, with the row's number as its seq."""
    connection = await asyncpg.connect(url)
    try:
        while True:
            sent = time.monotonic_ns() // 1000
            number = await connection.fetchval("insert into told (value) values ('a') returning id")
            attempts.append(Attempt(1, 0, number, Outcome.OK, sent, time.monotonic_ns() // 1000))
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        pass
    finally:
        connection.terminate()


async def shows(url: str, number: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await sql(url, f"select count(*) from told where id = {number} and value = 'b'"):  # noqa: S608
            await asyncio.sleep(0.02)


@pytest.mark.extra
async def test_a_failover_can_follow_another(tmp_path: Path) -> None:
    async with running(tmp_path, *PAIR) as servers:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told as select 0 as id, 'a'::text as value")
        for number in (1, 2):
            await ALL["failover"].inject(servers, "postgres")
            await ALL["failover"].heal(servers, "postgres")
            await sql(url, f"insert into told values ({number}, 'a')")  # noqa: S608  a number
        assert await rows(url) == [0, 1, 2]


async def test_without_a_replica_there_is_nobody_to_promote(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres") as servers:
        for name in ("failover", "early_failover"):
            assert "no replica to promote" in (ALL[name].unavailable(servers, "postgres") or "")
            await ALL[name].heal(servers, "postgres")
