"""A PostgreSQL that restarts within itself is found out by its log, and a start that somebody asked for is not news."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import asyncpg
import pytest
from breaking import sql, until

from soak.daemon.faults import FaultLog
from soak.daemon.inner_restarts import LINE_BYTES_MAX, LogFollower, events_in, tell_inner_restarts
from soak.tasks import end_tasks
from soak.testbed import LocalTestbed, ServerEvent

if TYPE_CHECKING:
    from pathlib import Path

CRASHED = b"2026-11-17 05:07:34.189 GMT [26141] LOG:  terminating any other active server processes"
READY = b"2026-11-17 05:07:34.971 GMT [26141] LOG:  database system is ready to accept connections"


def test_it_died_after_the_look_before_and_was_back_before_this_one() -> None:
    events = events_in([b"LOG:  something else", CRASHED, READY], "postgres", since=10, now=20)
    assert [(event.what, event.at_us) for event in events] == [("died", 10), ("restarted", 20)]
    replica = READY.replace(b"accept connections", b"accept read-only connections")
    assert [event.what for event in events_in([CRASHED, replica], "postgres-replica", since=10, now=20)] == [
        "died",
        "restarted",
    ]
    assert events_in([b"", b"FATAL:  the database system is starting up"], "postgres", since=10, now=20) == []


def test_a_line_counts_when_it_is_finished_and_a_log_that_was_begun_anew_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"of an earlier life\n")
    log = LogFollower(path)
    assert log.new_lines() == []
    with path.open("ab") as file:
        file.write(b"half")
        file.flush()
        assert log.new_lines() == []
        file.write(b" of it\nand " + b"x" * 3 * LINE_BYTES_MAX)
        file.flush()
        assert log.new_lines() == [b"half of it"]
        file.write(b" more\n")
        file.flush()
        (long,) = log.new_lines()
        assert len(long) == LINE_BYTES_MAX + len(" more")
    path.write_bytes(b"anew\n")
    assert log.new_lines() == [b"anew"]
    path.unlink()
    assert log.new_lines() == []


def test_a_server_that_is_gone_already_does_not_die_again() -> None:
    faults = FaultLog(lambda _text: None)
    faults.died(ServerEvent(kind="postgres", what="died", at_us=10, detail=""))
    faults.died(ServerEvent(kind="postgres", what="died", at_us=15, detail=""))
    assert faults.is_down("postgres")
    faults.came_back(ServerEvent(kind="postgres", what="restarted", at_us=20, detail=""))
    assert not faults.is_down("postgres")
    assert faults.active == []
    written = [faults._queue.get_nowait() for _ in range(faults._queue.qsize())]
    assert [(phase.phase, phase.at) for phase in written] == [("start", 10), ("end", 20)]


@pytest.mark.long
async def test_a_process_of_postgres_that_is_killed_is_told_and_every_planned_end_is_not(tmp_path: Path) -> None:
    supervised: list[ServerEvent] = []
    told: list[ServerEvent] = []
    late = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
    bed = LocalTestbed(tmp_path, on_event=supervised.append, postgres_options=late)
    await bed.start(["postgres"])
    server = bed.servers["postgres"]
    telling = asyncio.create_task(tell_inner_restarts(bed.servers, told.append))
    try:
        for _ in range(3):
            await server.kill()
            await server.start_again()
        await server.stop_cleanly()
        await server.start_again()
        await until(lambda: len(told) >= 4)
        assert {event.what for event in told} == {"restarted"}
        told.clear()
        await sql(server.url, "create table told (number int)")
        await sql(server.url, "checkpoint")
        writing = await asyncpg.connect(server.url, timeout=10)
        pid = await writing.fetchval("select pg_backend_pid()")
        for number in range(200):
            await writing.execute("insert into told values ($1)", number)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: len(told) >= 2)
        assert [event.what for event in told] == ["died", "restarted"]
        assert told[0].at_us < told[1].at_us
        # What was acknowledged last is gone, as the setting allows; no supervisor has seen why.
        assert await sql(server.url, "select count(*) from told") < 200
        assert supervised == []
    finally:
        await end_tasks([telling])
        await bed.stop()
