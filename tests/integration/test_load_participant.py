"""A participant against a real store and a real ledger: what is said is recorded, checked, recalled, forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis

from soak.checker.contract import Contract
from soak.checker.message import Message, Stored
from soak.checker.outcome import NotApplied, Outcome
from soak.join import JoinInfo
from soak.ledger.connection import keys_of
from soak.ledger.reader import LedgerReader
from soak.ledger.records import Batch, VerifierBacklog, decode_batch
from soak.ledger.run import create_run
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.reading import Expectation, Performed
from soak.load.session_pool import RACED_MIN, READ_SLACK_SECONDS, Deadlines, OpenedStore, SessionPool
from soak.settings import LedgerSettings
from soak.stores.protocol import MemoryStore
from soak.stores.registry import open_store
from soak.tasks import raise_if_cancelled
from tests.support.run_headers import header_of

STORE = "redis-list"


class Stage:
    """A pool of a run of its own, and the ledger it writes."""

    def __init__(self, pool: SessionPool, ledger: Redis, run: str) -> None:
        self.pool = pool
        self._ledger = ledger
        self._run = run

    def replace(self, **methods: Any) -> None:
        """Let the real store stand there with some of its methods replaced."""
        names = ("append", "history", "forget", "close")
        memory: Any = SimpleNamespace(**{name: methods.get(name, getattr(self.real, name)) for name in names})
        self.pool.stores = {STORE: OpenedStore(memory, Expectation.of(Contract()))}

    @property
    def real(self) -> MemoryStore:
        return self.pool.stores[STORE].memory

    async def later(self) -> list[Performed]:
        """Wait for what goes on behind the turns, and give what was performed there."""
        async with asyncio.timeout(20):
            while self.pool._later:
                await asyncio.sleep(0.01)
        return self.pool.take_performed_later()

    async def batches(self) -> Batch:
        """End the load and give all that was recorded, in one batch."""
        await self.pool.close()
        whole = Batch()
        entries: Any = await self._ledger.xrange(keys_of(self._run).batches)
        for _, fields in entries:
            batch = decode_batch(fields[b"b"], int(fields[b"c"]))
            for name in ("opens", "leases", "attempts", "forget_intents", "forget_outcomes", "closes", "observations"):
                getattr(whole, name).extend(getattr(batch, name))
            whole.latencies.extend(batch.latencies)
            whole.errors.extend(batch.errors)
            whole.farewell |= batch.farewell
        return whole


@contextlib.asynccontextmanager
async def a_stage(redis_url: str, ledger_url: str, **plan: Any) -> AsyncIterator[Stage]:
    run = uuid.uuid4().hex[:12]
    header = header_of({STORE: Contract()}, run, seed=3, started_wall_seconds=time.time())
    await create_run(ledger_url, header)
    info = JoinInfo(
        header=header,
        ledger_url=ledger_url,
        servers={"redis": redis_url},
        timeout_seconds=5.0,
        connections_max=4,
        ttl_seconds=None,
        daemon_pid=0,
        daemon_created_seconds=0.0,
        http_address="",
    )
    quiet = {"shared_share": 0.0, "recall_share": 0.0, "forget_share": 0.0, "reread_share": 0.0}
    quiet |= {"forget_wait_seconds_max": 0.0}
    pool = await SessionPool.open(info, LedgerSettings(lease_messages=8), Plan(stores=(STORE,), **(quiet | plan)))
    ledger = Redis.from_url(ledger_url)
    stage = Stage(pool, ledger, run)
    try:
        yield stage
    finally:
        await pool.close()
        await ledger.aclose()
        cleaner: Any = await open_store(STORE, info.store_context())
        await cleaner.clean_up()
        await cleaner.close()


async def take_turns(participant: Participant, count: int) -> list[Performed]:
    return [one for _ in range(count) for one in await participant.turn()]


async def take_turns_in(stage: Stage, sessions: int) -> list[Performed]:
    """Talk until so many sessions have ended; how long a session is, is drawn, and a few are very long."""
    participant, performed = Participant(stage.pool), list[Performed]()
    while stage.pool._sessions <= sessions:
        performed += await participant.turn()
    return performed


async def take_turns_until_forgets_wait(stage: Stage) -> list[Performed]:
    """Talk until some sessions have ended and are to be forgotten; how long a session is, is drawn."""
    participant = Participant(stage.pool)
    performed = await take_turns(participant, 20)
    while not stage.pool._later:
        performed += await take_turns(participant, 1)
    return performed


def errors(performed: Sequence[Performed]) -> Counter[str]:
    return Counter(str(one.error) for one in performed if one.error is not None)


async def test_everything_said_is_leased_before_and_recorded_after(redis_url: str, ledger_url: str) -> None:
    async with a_stage(redis_url, ledger_url, session_messages=40) as stage:
        people = [Participant(stage.pool) for _ in range(5)]
        performed = [one for each in await asyncio.gather(*(take_turns(p, 30) for p in people)) for one in each]
        record = await stage.batches()
    assert errors(performed) == {}
    said = [one for one in performed if one.operation == "append"]
    assert len(said) == len(record.attempts) == 300
    assert {one.outcome for one in record.attempts} == {Outcome.OK}
    leased: Counter[tuple[int, int]] = Counter()
    for lease in record.leases:
        leased[lease.session, lease.writer] = max(lease.upto, leased[lease.session, lease.writer])
    assert all(one.seq <= leased[one.session, one.writer] for one in record.attempts)
    assert all(one.sent <= one.ended for one in record.attempts)
    assert sorted(record.closes) == [one.number for one in record.opens]
    assert record.observations == []
    assert record.farewell
    counted = Counter[str]()
    for tally in record.latencies:
        counted[tally.operation] += sum(tally.counts.values())
    assert counted == {"append": 300, "history": 150}


async def test_sessions_end_are_recalled_and_sometimes_forgotten(redis_url: str, ledger_url: str) -> None:
    wishes = {"session_messages": 4, "recall_share": 0.5, "forget_share": 0.5, "reread_share": 0.5}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        performed = await take_turns_in(stage, 60) + await stage.later()
        record = await stage.batches()
    operations = Counter(one.operation for one in performed)
    assert errors(performed) == {}
    assert operations["recall"] > 20
    assert operations["forget"] == len(record.forget_intents) == len(record.forget_outcomes) > 5
    assert {one.outcome for one in record.forget_outcomes} == {Outcome.OK}
    assert sorted(record.closes) == [one.number for one in record.opens]
    names = [one.session for one in record.opens]
    assert len(set(names)) == len(names)
    assert all(name.rstrip().endswith("-chat") for name in names)


async def say(pool: SessionPool, oldest_unread_seconds: float, *, for_seconds: float = 30.0) -> None:
    """Say in the verifier's place how far it has come."""
    reader = await LedgerReader.connect(pool.ledger._connection.url, pool.ledger.header.run)
    progress = VerifierBacklog(unread=5, oldest_unread_seconds=oldest_unread_seconds, stamp=time.time_ns())
    await reader.publish(progress, valid_seconds=for_seconds)
    await reader.close()


@contextlib.asynccontextmanager
async def saying(pool: SessionPool, oldest_unread_seconds: float) -> AsyncIterator[None]:
    """Say so again and again, as a verifier does."""

    async def again_and_again() -> None:
        while True:
            await say(pool, oldest_unread_seconds)
            raise_if_cancelled()  # redis-py may have swallowed that while it connected
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(again_and_again())
        yield
        task.cancel()


async def test_a_session_is_forgotten_once_the_verifier_has_had_the_chance_to_read_it(
    redis_url: str, ledger_url: str
) -> None:
    wishes = {"session_messages": 4, "forget_share": 1.0, "forget_wait_seconds_max": 60.0, "forget_race_share": 0.0}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        await say(stage.pool, 1_000.0)
        performed = await take_turns_until_forgets_wait(stage)
        await asyncio.sleep(READ_SLACK_SECONDS + 0.5)
        assert stage.pool.take_performed_later() == [], "the verifier has not come so far"
        waiting = len(stage.pool._later)
        async with saying(stage.pool, 0.2):
            performed += await stage.later()
        record = await stage.batches()
    assert errors(performed) == {}
    assert len(record.forget_outcomes) == waiting > 0
    last = {one.session: one.ended for one in record.attempts}
    assert all(one.sent - last[one.session] >= READ_SLACK_SECONDS * 1e6 for one in record.forget_outcomes)


async def test_a_verifier_that_is_not_heard_of_is_not_waited_for_without_end(redis_url: str, ledger_url: str) -> None:
    wishes = {"session_messages": 4, "forget_share": 1.0, "forget_wait_seconds_max": 0.5, "forget_race_share": 0.0}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        await take_turns_until_forgets_wait(stage)
        await stage.later()
        record = await stage.batches()
    assert record.forget_outcomes
    assert sorted(record.closes) == [one.number for one in record.opens]


async def test_a_verifier_that_was_heard_of_and_is_away_is_waited_for(redis_url: str, ledger_url: str) -> None:
    wishes = {"session_messages": 4, "forget_share": 1.0, "forget_wait_seconds_max": 0.2, "forget_race_share": 0.0}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        await say(stage.pool, 0.0)
        await take_turns_until_forgets_wait(stage)
        await asyncio.sleep(READ_SLACK_SECONDS + 1.0)
        assert stage.pool.take_performed_later() == [], "what it said before says nothing of what came later"
        waiting = len(stage.pool._later)
        async with saying(stage.pool, 0.2):
            await stage.later()
        record = await stage.batches()
    assert len(record.forget_outcomes) == waiting > 0


async def test_what_waits_to_be_forgotten_when_the_load_ends_is_kept(redis_url: str, ledger_url: str) -> None:
    wishes = {"session_messages": 4, "forget_share": 1.0, "forget_wait_seconds_max": 60.0}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        await take_turns(Participant(stage.pool), 20)
        record = await stage.batches()
    assert record.forget_intents == []
    assert sorted(record.closes) == [one.number for one in record.opens]


async def test_some_forgets_race_with_a_last_message(redis_url: str, ledger_url: str) -> None:
    wishes = {"session_messages": 4, "forget_share": 1.0, "forget_race_share": 1.0, "reread_share": 1.0}
    wishes |= {"raced_share_max": 1.0}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        performed = await take_turns_in(stage, 30) + await stage.later()
        record = await stage.batches()
    assert errors(performed) == {}
    assert record.observations == []
    last = {one.session: one for one in sorted(record.attempts, key=lambda one: one.seq)}
    gaps = [(one.sent - last[one.session].ended) / 1e6 for one in record.forget_outcomes]
    assert all(gap < READ_SLACK_SECONDS for gap in gaps)
    assert any(gap < 0 for gap in gaps), "both were under way at the same time"
    assert any(gap > 0 for gap in gaps), "the forget came right behind"


async def test_few_messages_race_with_a_forget_for_those_are_never_verified(redis_url: str, ledger_url: str) -> None:
    wishes = {"session_messages": 4, "forget_share": 1.0, "forget_race_share": 1.0, "raced_share_max": 0.0}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        await take_turns_in(stage, 12)
        await stage.later()
        record = await stage.batches()
    lasts = {
        one.session: max(a.seq for a in record.attempts if a.session == one.session) for one in record.forget_outcomes
    }
    # A turn is two messages: an odd number of them has one more.
    assert sum(last % 2 for last in lasts.values()) == RACED_MIN < len(lasts)


async def test_participants_share_sessions_each_with_a_writer_of_its_own(redis_url: str, ledger_url: str) -> None:
    wishes = {"shared_share": 1.0, "writers_per_session": 4, "session_messages": 20, "forget_share": 0.5}
    async with a_stage(redis_url, ledger_url, **wishes, reread_share=0.5) as stage:
        people = [Participant(stage.pool) for _ in range(8)]
        performed = [one for each in await asyncio.gather(*(take_turns(p, 40) for p in people)) for one in each]
        record = await stage.batches()
    assert errors(performed) == {}
    assert record.observations == []
    writers = {(one.session, one.writer) for one in record.attempts}
    assert {writer for _, writer in writers} == {0, 1, 2, 3}
    by_writer: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for one in record.attempts:
        by_writer.setdefault((one.session, one.writer), []).append((one.seq, one.sent, one.ended))
    for attempts in by_writer.values():
        assert [seq for seq, _, _ in attempts] == list(range(1, len(attempts) + 1))
        pairs = itertools.pairwise(attempts)
        assert all(ended <= sent for (_, _, ended), (_, sent, _) in pairs), "one message in flight per writer"
    assert sorted(record.closes) == [one.number for one in record.opens]


async def test_a_whole_read_of_a_shared_session_is_reported_with_the_messages_of_all_its_writers(
    redis_url: str, ledger_url: str
) -> None:
    wishes = {"shared_share": 1.0, "writers_per_session": 3, "session_messages": 1_000}
    async with a_stage(redis_url, ledger_url, **wishes) as stage:
        people = [Participant(stage.pool) for _ in range(3)]
        for person in people:
            await person.turn()
        for _ in range(4):
            await asyncio.gather(*(person.turn() for person in people))
        (conversation,) = stage.pool._live.values()
        whole = await people[0]._read(conversation, "recall", None)
        assert whole.error is None

        real = stage.real

        async def history(session: str, last: int | None = None) -> Sequence[Stored]:
            items = await real.history(session, last)
            return [item for item in items if not (isinstance(item, Message) and (item.writer, item.seq) == (1, 2))]

        stage.replace(history=history)
        lacking = await people[0]._read(conversation, "recall", None)
        record = await stage.batches()
    assert str(lacking.error) == "suspicious read: absent"
    (seen,) = record.observations
    assert (seen.last, seen.acked_total) == (None, 30)
    expected = {(writer, seq) for writer in range(3) for seq in range(1, 11)}
    assert {(item.writer, item.seq) for item in seen.items} == expected - {(1, 2)}
    assert all(item.raw is None and item.session == conversation.session for item in seen.items)
    assert {(writer, seq) for writer, seq, _, _ in seen.acked} <= expected


async def test_an_error_is_unknown_a_refusal_is_failed_and_neither_is_sent_again(
    redis_url: str, ledger_url: str
) -> None:
    async with a_stage(redis_url, ledger_url, session_messages=1_000) as stage:
        real, calls = stage.real, 0

        async def append(session: str, message: Message) -> None:
            nonlocal calls
            calls += 1
            if calls % 5 == 0:
                raise NotApplied("no")
            if calls % 5 == 1:
                await real.append(session, message)
                raise ConnectionResetError("the reply was lost")
            if calls % 5 == 2:
                raise ConnectionResetError("the request was lost")
            await real.append(session, message)

        stage.replace(append=append)
        performed = await take_turns(Participant(stage.pool), 25)
        record = await stage.batches()
    assert errors(performed) == {"error: ConnectionResetError": 20, "refused, not applied": 10}
    assert Counter(one.outcome for one in record.attempts) == {
        Outcome.OK: 20,
        Outcome.UNKNOWN: 20,
        Outcome.FAILED: 10,
    }
    names = [(one.session, one.writer, one.seq) for one in record.attempts]
    assert len(set(names)) == len(names)
    assert record.observations == []


async def test_a_store_that_hangs_is_given_up_and_the_write_is_unknown(redis_url: str, ledger_url: str) -> None:
    async with a_stage(redis_url, ledger_url) as stage:

        async def append(session: str, message: Message) -> None:
            del session, message
            await asyncio.sleep(3600)

        stage.pool.deadlines.close()
        stage.pool.deadlines = Deadlines(0.1)
        stage.replace(append=append)
        performed = await take_turns(Participant(stage.pool), 1)
        record = await stage.batches()
    assert errors(performed) == {"no answer in time": 2}
    assert [one.outcome for one in record.attempts] == [Outcome.UNKNOWN, Outcome.UNKNOWN]


async def test_a_turn_cut_short_leaves_an_unknown_write_and_a_closed_session(redis_url: str, ledger_url: str) -> None:
    async with a_stage(redis_url, ledger_url) as stage:
        sent = asyncio.Event()

        async def append(session: str, message: Message) -> None:
            del session, message
            sent.set()
            await asyncio.sleep(3600)

        stage.replace(append=append)
        participant = Participant(stage.pool)
        turn = asyncio.create_task(participant.turn())
        await sent.wait()
        turn.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turn
        participant.leave()
        record = await stage.batches()
    assert [one.outcome for one in record.attempts] == [Outcome.UNKNOWN]
    assert record.closes == [1]


async def test_whoever_goes_while_a_session_is_being_opened_leaves_none_open(redis_url: str, ledger_url: str) -> None:
    async with a_stage(redis_url, ledger_url) as stage:
        turn = asyncio.create_task(Participant(stage.pool).turn())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        turn.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turn
        record = await stage.batches()
    assert len(record.opens) == len(record.closes) == 1
    assert record.attempts == []


@pytest.mark.parametrize(
    ("spoil", "suspicion"),
    [
        (lambda items: items[:-1], "absent"),
        (lambda items: [items[1], items[0], *items[2:]], "order"),
        (lambda items: [*items[1:], items[-1]], "duplicate"),
        (lambda items: [None, *items[1:]], "garbled"),
    ],
)
async def test_what_does_not_look_right_is_a_failed_read_and_an_observation(
    redis_url: str, ledger_url: str, spoil: Any, suspicion: str
) -> None:
    async with a_stage(redis_url, ledger_url, session_messages=1_000) as stage:
        real = stage.real
        is_spoilt = False

        async def history(session: str, last: int | None = None) -> Sequence[Stored]:
            items = list(await real.history(session, last))
            return spoil(items) if is_spoilt else items

        stage.replace(history=history)
        participant = Participant(stage.pool)
        assert errors(await take_turns(participant, 10)) == {}
        is_spoilt = True
        spoilt = await take_turns(participant, 1)
        record = await stage.batches()
    assert errors(spoilt) == {f"suspicious read: {suspicion}": 1}
    (seen,) = record.observations
    assert seen.suspicion == suspicion
    assert seen.last == 10
    assert seen.acked_total == 20
    assert len(seen.acked) >= 10


async def test_a_store_that_cannot_be_read_is_unavailable_and_not_suspicious(redis_url: str, ledger_url: str) -> None:
    async with a_stage(redis_url, ledger_url) as stage:

        async def history(session: str, last: int | None = None) -> Sequence[Stored]:
            raise ConnectionRefusedError(session, last)

        stage.replace(history=history)
        performed = await take_turns(Participant(stage.pool), 3)
        record = await stage.batches()
    assert errors(performed) == {"error: ConnectionRefusedError": 3}
    assert record.observations == []
    assert sum(sum(tally.errors.values()) for tally in record.latencies if tally.operation == "history") == 3


async def test_what_a_store_raises_reaches_the_ledger_once_per_kind_with_its_place(
    redis_url: str, ledger_url: str
) -> None:
    async with a_stage(redis_url, ledger_url) as stage:

        async def append(session: str, message: Message) -> None:
            del session, message
            raise KeyError("rows")

        async def history(session: str, last: int | None = None) -> Sequence[Stored]:
            raise NotApplied(session, last)

        stage.replace(append=append, history=history)
        await take_turns(Participant(stage.pool), 5)
        record = await stage.batches()
    counted: Counter[str] = Counter()
    for error in record.errors:
        counted[f"{error.operation} {error.type} {error.nature.value}"] += error.count
    assert counted == {"append KeyError defect": 10, "history NotApplied unavailable": 5}
    (line,) = {error.line for error in record.errors if error.operation == "append"}
    place = f"test_load_participant.py:{append.__code__.co_firstlineno + 2}"
    assert line == f"{STORE}: append raised KeyError: 'rows' ({place})"


async def test_writers_wait_while_the_ledger_is_stalled(redis_url: str, ledger_url: str) -> None:
    async with a_stage(redis_url, ledger_url) as stage:
        participant = Participant(stage.pool)
        await participant.turn()
        stage.pool.ledger._stall()
        turn = asyncio.create_task(participant.turn())
        await asyncio.sleep(0.01)
        stage.pool.ledger._stall()
        assert not turn.done()
        stage.pool.ledger._flow()
        assert errors(await turn) == {}


class FindsByWords:
    """Searches what another store remembers, and leaves out what it is told to."""

    def __init__(self, memory: MemoryStore) -> None:
        self._memory = memory
        self.hidden: set[int] = set()

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        found = [one for one in await self._memory.history(session) if isinstance(one, Message)]
        ranked = sorted(found, key=lambda one: (one.content != text, -one.seq))
        return [one for one in ranked if one.seq not in self.hidden][:limit]


async def test_a_participant_searches_where_the_store_can_and_tells_what_it_does_not_find(
    redis_url: str, ledger_url: str
) -> None:
    async with a_stage(redis_url, ledger_url, session_messages=1_000, search_share=1.0) as stage:
        participant = Participant(stage.pool)
        assert {one.operation for one in await take_turns(participant, 2)} == {"history", "append"}
        searching = FindsByWords(stage.real)
        stage.pool.stores = {STORE: stage.pool.stores[STORE]._replace(search=searching.search)}
        good = await take_turns(participant, 20)
        assert errors(good) == {}
        assert sum(one.operation == "search" for one in good) == 20
        searching.hidden = set(range(1_000))
        bad = await take_turns(participant, 3)
        record = await stage.batches()
    assert errors(bad) == {"suspicious read: absent": 3}
    assert [one.last for one in record.observations] == [10] * 3
    assert all(one.asked is not None and one.asked[0] == 0 for one in record.observations)
    assert sum(sum(one.counts.values()) for one in record.latencies if one.operation == "search") == 23
