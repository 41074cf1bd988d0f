"""What the writers of the recovery matrix put down: what they saw themselves, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from soak.checker.contract import Contract
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.message import Message
from soak.checker.outcome import Attempt, Outcome
from soak.checker.text import MessageGenerator
from soak.errors import SoakError
from soak.scenarios.recovery_matrix import writers as writing
from soak.scenarios.recovery_matrix.judgement import judge
from soak.scenarios.recovery_matrix.writers import SESSIONS, WRITERS, Writers, read_back, session_name
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.registry import open_store
from tests.support.servers.breaking import PATIENCE_SECONDS, running, until

AUTHOR = MessageGenerator("m1", 7)


@contextlib.asynccontextmanager
async def memory_at(url: str, namespace: str) -> AsyncIterator[MemoryStore]:
    memory = await open_store("redis-list", StoreContext(servers={"redis": url}, namespace=namespace))
    try:
        yield memory
    finally:
        await memory.close()


async def test_every_acknowledgement_is_recorded_and_can_be_read_back(redis_url: str, namespace: str) -> None:
    async with memory_at(redis_url, namespace) as memory:
        writers = Writers(memory, AUTHOR)
        writers.begin()
        await until(lambda: len(writers.attempts) > 50 * SESSIONS)
        writers.check()
        await writers.leave()
        reads = await read_back(memory, writers.attempts)
    assert {attempt.outcome for attempt in writers.attempts} == {Outcome.OK}
    assert {attempt.writer for attempt in writers.attempts} == set(range(WRITERS))
    for number in range(SESSIONS):
        seqs = [attempt.seq for attempt in writers.attempts if attempt.session == number]
        read = reads[session_name(number)]
        assert [item.seq for item in read.items if isinstance(item, Message)] == sorted(seqs)
        assert list(read.acked[number % WRITERS]) == sorted(seqs)
    assert all(attempt.sent <= attempt.ended for attempt in writers.attempts)


async def test_what_nobody_waits_for_any_longer_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LAST_REPLY_SECONDS_MAX", 0.1)
    async with running(tmp_path, "redis") as servers:
        server = servers.nodes["redis"]
        async with memory_at(server.url, "matrix") as memory:
            writers = Writers(memory, AUTHOR)
            writers.begin()
            await until(lambda: len(writers.attempts) > SESSIONS)
            await server.pause()
            await until_still(writers)
            await writers.leave()
            outcomes = Counter(attempt.outcome for attempt in writers.attempts)
            assert outcomes[Outcome.UNKNOWN] == SESSIONS
            await server.resume()


async def until_still(writers: Writers) -> None:
    """Wait until the replies that were under way are read."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    before = -1
    while len(writers.attempts) != before:
        assert time.monotonic() < deadline
        before = len(writers.attempts)
        await asyncio.sleep(0.2)


async def test_who_finds_the_server_gone_records_it_and_stops(tmp_path: Path) -> None:
    async with running(tmp_path, "redis") as servers:
        server = servers.nodes["redis"]
        async with memory_at(server.url, "matrix") as memory:
            writers = Writers(memory, AUTHOR)
            writers.begin()
            await until(lambda: len(writers.attempts) > SESSIONS)
            await server.kill()
            await until(lambda: sum(attempt.outcome != Outcome.OK for attempt in writers.attempts) == SESSIONS)
            with pytest.raises(SoakError, match="a writer stopped before the fault"):
                writers.check()
            await writers.leave()
            await server.start_again()
    for number in range(SESSIONS):
        outcomes = [attempt.outcome for attempt in writers.attempts if attempt.session == number]
        assert set(outcomes[:-1]) <= {Outcome.OK}
        assert outcomes[-1] in {Outcome.UNKNOWN, Outcome.FAILED}


async def test_what_stands_twice_or_elsewhere_or_changed_is_strange(redis_url: str, namespace: str) -> None:
    first, second = AUTHOR.write(session_name(0), 0, 1), AUTHOR.write(session_name(0), 0, 2)
    changed = Message(first.run, first.session, 0, 3, first.role, "changed", first.checksum)
    async with memory_at(redis_url, namespace) as memory:
        for message in (first, first, changed):
            await memory.append(session_name(0), message)
        await memory.append(session_name(1), second)
        attempts = [Attempt(0, 0, seq, int(Outcome.OK), seq, seq) for seq in (1, 3)]
        reads = await read_back(memory, attempts)
    window = FaultWindow(
        fault="crash", kind="crash", target="redis", excuses=Excuse.CRASH, promotes=Promotion.NONE, started=4, ended=5
    )
    by_session: dict[str, list[Attempt]] = {session_name(number): [] for number in range(SESSIONS)}
    by_session[session_name(0)] = attempts
    measured = judge(by_session, [reads], window, Contract(), AUTHOR, 0)
    assert measured.complaints == ["3 items read back are not as they were written, or are there twice"]
