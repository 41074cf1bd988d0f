"""A worker's pen on a real ledger: intents first, batches numbered, nothing lost when the ledger goes away."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.asyncio import Redis

from soak.checker.contract import Contract
from soak.checker.outcome import Outcome
from soak.clock import clock_offset_us
from soak.errors import ServerUnreachableError, UsageError
from soak.ledger.connection import keys_of
from soak.ledger.reader import START, Entry, LedgerReader, RunRecord, WorkerBatch
from soak.ledger.records import (
    FORMAT_VERSION,
    Batch,
    EndOfLoad,
    Lease,
    Observation,
    Open,
    RunHeader,
    SeenItem,
    VerifierBacklog,
    this_host,
)
from soak.ledger.run import RunJournal, create_run, read_header
from soak.ledger.writer import OBSERVATIONS_PER_BATCH_MAX, LedgerWriter
from soak.servers.ports import free_port
from soak.settings import LedgerSettings
from tests.support.run_headers import header_of

SECONDS_MAX = 20.0


def header(run: str, version: int = FORMAT_VERSION) -> RunHeader:
    return header_of({"redis-list": Contract()}, run, version=version, seed=5, started_wall_seconds=time.time())


class Ledger:
    """The ledger of one run, with what it takes to write and read it."""

    def __init__(self, url: str, run: str, redis: Redis) -> None:
        self.url = url
        self.run = run
        self.key = keys_of(run).batches
        self._redis = redis
        self._writers: list[LedgerWriter] = []
        self._readers: list[LedgerReader] = []

    async def writer(self, url: str | None = None, **settings: float) -> LedgerWriter:
        made = await LedgerWriter.connect(url or self.url, LedgerSettings(**settings))
        self._writers.append(made)
        return made

    async def entries(self) -> list[Entry]:
        reader = await LedgerReader.connect(self.url, self.run)
        self._readers.append(reader)
        return await reader.read(START, block_seconds=0.01)

    async def batches(self) -> list[WorkerBatch]:
        return [entry for entry in await self.entries() if isinstance(entry, WorkerBatch)]

    async def publish(self, *, hold: bool, valid_seconds: float = 30.0) -> None:
        reader = await LedgerReader.connect(self.url, self.run)
        self._readers.append(reader)
        progress = VerifierBacklog(unread=7, oldest_unread_seconds=0.5, hold=hold)
        await reader.publish(progress, valid_seconds=valid_seconds)

    async def trim(self, at: str) -> None:
        reader = await LedgerReader.connect(self.url, self.run)
        self._readers.append(reader)
        await reader.trim_before(at)

    async def close(self) -> None:
        for reader in self._readers:
            await reader.close()
        for writer in self._writers:
            await writer.close()
        await self._redis.delete(*keys_of(self.run))
        await self._redis.aclose()


@pytest.fixture
async def ledger(ledger_url: str) -> AsyncIterator[Ledger]:
    run = "r" + uuid.uuid4().hex[:8]
    await create_run(ledger_url, header(run))
    made = Ledger(ledger_url, run, Redis.from_url(ledger_url))
    yield made
    await made.close()


class Proxy:
    """Stands between a writer and the ledger, and can be away, or swallow the next answer and hang up."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.rpartition("@")[2].partition("/")[0].rpartition(":")
        self._port = int(port)
        self.port = free_port()
        self.url = url.replace(f"{self._host}:{port}", f"127.0.0.1:{self.port}")
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallow = 0
        self.swallowed = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        self._links |= {writer, there_writer}
        forth = asyncio.create_task(self._copy(reader, there_writer, swallows=False))
        self._tasks.add(forth)
        try:
            await self._copy(there_reader, writer, swallows=True)
        finally:
            forth.cancel()
            writer.close()
            there_writer.close()
            self._links -= {writer, there_writer}
            self._tasks -= {task, forth}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, swallows: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if swallows and self.swallow:
                    self.swallow -= 1
                    self.swallowed += 1
                    return  # the server has done it, and nobody will ever hear of it
                writer.write(data)
                await writer.drain()


@pytest.fixture
async def proxy(ledger: Ledger) -> AsyncIterator[Proxy]:
    made = Proxy(ledger.url)
    await made.start()
    yield made
    await made.stop()


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


def joined(batches: list[WorkerBatch]) -> list[Batch]:
    """Return each batch once, in order, as a verifier takes them in."""
    taken: dict[int, Batch] = {}
    for entry in batches:
        taken.setdefault(entry.number, entry.batch)
    return [taken[number] for number in sorted(taken)]


# -- intents --


async def test_a_session_and_its_first_block_are_in_the_ledger_before_it_may_be_used(ledger: Ledger) -> None:
    writer = await ledger.writer(lease_messages=8)
    number = await writer.open_session("talk", "redis-list", 3)
    (entry,) = await ledger.batches()
    assert entry.batch.opens == [Open(number, "talk", "redis-list")]
    assert entry.batch.leases == [Lease(number, writer_number, 8) for writer_number in range(3)]
    assert entry.worker == writer.worker


async def test_a_lease_and_the_intent_to_forget_are_in_the_ledger_when_they_return(ledger: Ledger) -> None:
    writer = await ledger.writer()
    number = await writer.open_session("talk", "redis-list", 1)
    await writer.lease(number, 0, 64)
    assert Lease(number, 0, 64) in (await ledger.batches())[-1].batch.leases
    await writer.intend_forget(number, 123)
    (intent,) = (await ledger.batches())[-1].batch.forget_intents
    assert (intent.session, intent.sent) == (number, 123)


async def test_a_lease_goes_out_with_the_next_batch_that_is_due_unless_somebody_waits(ledger: Ledger) -> None:
    writer = await ledger.writer(flush=600.0)
    number = await writer.open_session("talk", "redis-list", 1)
    leasing = asyncio.create_task(writer.lease(number, 0, 64))
    await asyncio.sleep(0)
    await writer.open_session("another", "redis-list", 1)
    assert Lease(number, 0, 64) in (await ledger.batches())[-1].batch.leases
    await leasing
    leasing = asyncio.create_task(writer.lease(number, 0, 96))
    writer.hurry()
    await leasing
    assert (await ledger.batches())[-1].batch.leases == [Lease(number, 0, 96)]


async def test_many_intents_at_once_share_batches_and_are_all_there(ledger: Ledger) -> None:
    writer = await ledger.writer()
    numbers = await asyncio.gather(*(writer.open_session(f"talk-{one}", "redis-list", 1) for one in range(200)))
    batches = await ledger.batches()
    assert sorted(opened.number for entry in batches for opened in entry.batch.opens) == sorted(numbers)
    assert len(batches) < 20


# -- batches --


async def test_batches_count_from_one_and_outcomes_are_in_them_in_order(ledger: Ledger) -> None:
    writer = await ledger.writer(flush=0.005)
    number = await writer.open_session("talk", "redis-list", 1)
    for seq in range(1, 31):
        writer.attempted(number, 0, seq, Outcome.OK, seq, seq + 1)
        await asyncio.sleep(0.002)
    writer.forgot(number, Outcome.UNKNOWN, 50, 51)
    writer.close_session(number)
    await writer.close()
    batches = await ledger.batches()
    assert [entry.number for entry in batches] == list(range(1, len(batches) + 1))
    assert [attempt.seq for entry in batches for attempt in entry.batch.attempts] == list(range(1, 31))
    assert [entry.batch.farewell for entry in batches] == [False] * (len(batches) - 1) + [True]
    assert [number for entry in batches for number in entry.batch.closes] == [number]
    assert len({(entry.worker, entry.host, entry.boot) for entry in batches}) == 1
    assert all(entry.clock_error_us is not None for entry in batches)


async def test_a_flood_of_observations_is_cut_short_and_the_cut_is_counted(ledger: Ledger) -> None:
    writer = await ledger.writer()
    number = await writer.open_session("talk", "redis-list", 1)
    for _ in range(OBSERVATIONS_PER_BATCH_MAX + 9):
        writer.observe(Observation(number, 1, 2, None, [], [], 0, "absent"))
    await writer.close()
    batches = joined(await ledger.batches())
    assert sum(len(batch.observations) for batch in batches) == OBSERVATIONS_PER_BATCH_MAX
    assert sum(batch.suppressed_observations for batch in batches) == 9


async def test_a_quiet_worker_shows_that_it_lives(ledger: Ledger) -> None:
    await ledger.writer()

    async def has_spoken() -> bool:
        return len(await ledger.batches()) >= 2

    await until(has_spoken)


# -- a ledger that goes away --


async def test_a_batch_whose_answer_was_lost_is_sent_again_under_the_same_number(ledger: Ledger, proxy: Proxy) -> None:
    writer = await ledger.writer(proxy.url)
    number = await writer.open_session("talk", "redis-list", 1)
    proxy.swallow = 1
    await writer.lease(number, 0, 99)
    assert proxy.swallowed == 1
    await writer.close()
    batches = await ledger.batches()
    numbers = [entry.number for entry in batches]
    repeated = [one for one in set(numbers) if numbers.count(one) > 1]
    assert len(repeated) == 1
    twins = [entry.batch for entry in batches if entry.number == repeated[0]]
    assert twins[0] == twins[1]
    assert sorted(set(numbers)) == list(range(1, max(numbers) + 1))


async def test_while_the_ledger_is_away_writers_wait_and_afterwards_nothing_is_missing(
    ledger: Ledger, proxy: Proxy
) -> None:
    writer = await ledger.writer(proxy.url)
    number = await writer.open_session("talk", "redis-list", 1)
    await proxy.stop()
    for seq in range(1, 6):
        writer.attempted(number, 0, seq, Outcome.OK, seq, seq + 1)
    leasing = asyncio.create_task(writer.lease(number, 0, 99))

    async def is_stalled() -> bool:
        return writer.stalled

    await until(is_stalled)
    waiting = asyncio.create_task(writer.ready())
    done, _ = await asyncio.wait({leasing, waiting}, timeout=0.3)
    assert not done
    await proxy.start()
    await asyncio.wait_for(asyncio.gather(leasing, waiting), SECONDS_MAX)
    assert not writer.stalled
    await writer.close()
    batches = joined(await ledger.batches())
    assert [attempt.seq for batch in batches for attempt in batch.attempts] == [1, 2, 3, 4, 5]
    assert Lease(number, 0, 99) in [lease for batch in batches for lease in batch.leases]


async def test_a_worker_that_leaves_while_the_ledger_is_away_does_not_wait_for_ever(
    ledger: Ledger, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soak.ledger.writer.DRAIN_SECONDS_MAX", 0.3)
    writer = await LedgerWriter.connect(proxy.url, LedgerSettings())
    await proxy.stop()
    await asyncio.wait_for(writer.close(), SECONDS_MAX)


async def test_writers_wait_when_nobody_reads_and_go_on_when_the_ledger_is_trimmed(ledger: Ledger) -> None:
    writer = await ledger.writer(batches_max=100, flush=0.001)
    number = await writer.open_session("talk", "redis-list", 1)
    deadline = time.monotonic() + SECONDS_MAX
    seq = 0
    while not writer.stalled:
        assert time.monotonic() < deadline
        seq += 1
        writer.attempted(number, 0, seq, Outcome.OK, seq, seq)
        await asyncio.sleep(0.002)
    waiting = asyncio.create_task(writer.ready())
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    batches = await ledger.batches()
    assert len(batches) >= 100
    await ledger.trim(batches[-1].at)
    await asyncio.wait_for(waiting, SECONDS_MAX)
    await writer.lease(number, 0, 99)


async def until_stalled(writer: LedgerWriter, *, stalled: bool) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while writer.stalled is not stalled:
            await asyncio.sleep(0.01)


async def test_writers_wait_when_the_ledger_is_too_large_however_few_its_batches(ledger: Ledger) -> None:
    writer = await ledger.writer(bytes_max=1024 * 1024)
    number = await writer.open_session("talk", "redis-list", 1)
    item = SeenItem("talk", 0, 1, b"x" * 40_000)
    async with asyncio.timeout(SECONDS_MAX):
        while not writer.stalled:
            writer.observe(Observation(number, 1, 2, None, [item], [], 1, "garbled"))
            await asyncio.sleep(0.03)
    waiting = asyncio.create_task(writer.ready())
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    batches = await ledger.batches()
    assert len(batches) < 1_000
    await ledger.trim(batches[-1].at)
    await asyncio.wait_for(waiting, SECONDS_MAX)


async def test_writers_wait_while_the_verifier_asks_for_it(ledger: Ledger) -> None:
    writer = await ledger.writer()
    await ledger.publish(hold=True)
    await until_stalled(writer, stalled=True)
    opening = asyncio.create_task(writer.open_session("talk", "redis-list", 1))
    done, _ = await asyncio.wait({opening}, timeout=0.5)
    assert not done
    await ledger.publish(hold=False)
    assert await asyncio.wait_for(opening, SECONDS_MAX) == 1
    assert writer.progress == VerifierBacklog(unread=7, oldest_unread_seconds=0.5, hold=False)


async def test_a_verifier_that_has_died_holds_nobody_back(ledger: Ledger) -> None:
    writer = await ledger.writer()
    await ledger.publish(hold=True, valid_seconds=1.5)
    await until_stalled(writer, stalled=True)
    await until_stalled(writer, stalled=False)
    assert writer.progress is None


async def test_the_end_of_the_load_says_on_which_host_and_since_which_boot_it_was_measured(ledger: Ledger) -> None:
    journal = await RunJournal.connect(ledger.url, ledger.run)
    await journal.end_of_load(EndOfLoad(at=5, reason="enough"))
    await journal.close()
    writer = await ledger.writer()
    await writer.open_session("talk", "redis-list", 1)
    entries = await ledger.entries()
    host = this_host()
    ended = next(entry.record for entry in entries if isinstance(entry, RunRecord))
    assert (ended.host, ended.boot, ended.at) == (host.name, host.boot, 5)
    assert ended.clock_error_us is not None
    assert abs(ended.clock_offset_us - clock_offset_us()) <= ended.clock_error_us + 50_000, "both are of this machine"
    batches = [entry for entry in entries if isinstance(entry, WorkerBatch)]
    assert {(batch.host, batch.boot) for batch in batches} == {host}


# -- a ledger of something else --


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
async def test_a_ledger_of_another_format_is_one_clear_line(ledger: Ledger, version: int) -> None:
    other = "r" + uuid.uuid4().hex[:8]
    await create_run(ledger.url, header(other, version=version))
    with pytest.raises(UsageError, match=f"format {version}, this soak reads format {FORMAT_VERSION}") as why:
        await ledger.writer()
    assert "\n" not in str(why.value)
    await create_run(ledger.url, header(ledger.run))


async def test_a_header_that_is_no_header_is_one_clear_line(ledger: Ledger) -> None:
    await ledger._redis.set(keys_of(ledger.run).header, b"{")
    with pytest.raises(UsageError, match="header cannot be read") as why:
        await ledger.writer()
    assert "\n" not in str(why.value)
    await ledger._redis.set(keys_of(ledger.run).header, b'{"version": %d}' % FORMAT_VERSION)
    with pytest.raises(UsageError, match="header cannot be read"):
        await ledger.writer()


async def test_another_run_than_the_one_asked_for_is_one_clear_line(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match=f"holds run {ledger.run}, not rnowhere"):
        await read_header(ledger.url, "rnowhere")


async def test_a_wrong_password_is_one_clear_line_that_does_not_tell_it(ledger: Ledger) -> None:
    host = ledger.url.rpartition("@")[2]
    with pytest.raises(ServerUnreachableError) as why:
        await LedgerWriter.connect(f"redis://:hunter2@{host}", LedgerSettings())
    assert "refuses the password" in str(why.value)
    assert "hunter2" not in str(why.value)
    assert "\n" not in str(why.value)


async def test_a_ledger_that_wants_a_password_and_is_given_none_is_one_clear_line(ledger: Ledger) -> None:
    host = ledger.url.rpartition("@")[2]
    with pytest.raises(ServerUnreachableError) as why:
        await LedgerWriter.connect(f"redis://{host}", LedgerSettings())
    assert "password" in str(why.value)
    assert "\n" not in str(why.value)


@pytest.mark.parametrize("form", ["redis://127.0.0.1:{}", "redis+sentinel://127.0.0.1:{},127.0.0.1:1/mymaster"])
async def test_a_ledger_that_is_not_there_is_one_clear_line(form: str) -> None:
    with pytest.raises(ServerUnreachableError, match="cannot be reached") as why:
        await LedgerWriter.connect(form.format(free_port()), LedgerSettings())
    assert "\n" not in str(why.value)
