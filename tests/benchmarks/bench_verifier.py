"""The verifier's hot paths: ledger records taken in, histories read back and judged, memory per session.

Run with `python tests/benchmarks/bench_verifier.py`. Baselines are measured in the same run, because only ratios mean
anything on a noisy machine.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import redis.asyncio
import uvloop
from report import Row, print_rows

from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, Lease, Open, RunHeader, decode_batch, encode_batch
from soak.model.absorb import absorb
from soak.model.attempt import Attempt
from soak.model.book import SessionBook
from soak.model.contract import Contract
from soak.model.judge import judge
from soak.model.read import Read, Rules
from soak.model.text import Author
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from soak.testbed import LocalTestbed
from soak.verifier.intake import Intake
from soak.verifier.state import State

STORE = "redis-list"
SESSIONS = 2_000
PER_SESSION = 200
RULES = Rules(contract=Contract())


def new_state() -> tuple[State, Intake]:
    header = RunHeader(
        version=1,
        run="r1",
        seed=1,
        namespace="bench",
        stores=[STORE],
        contracts={STORE: Contract()},
        started_wall_seconds=0.0,
    )
    state = State(header, {STORE: ("redis",)}, 60_000_000)
    return state, Intake(state, {STORE: RULES}, "host")


def opening(sessions: int, first: int = 1, upto: int = PER_SESSION) -> bytes:
    numbers = range(first, first + sessions)
    return encode_batch(
        Batch(
            opens=[Open(number, f"w1-{number}-chat", STORE) for number in numbers],
            leases=[Lease(number, 0, upto) for number in numbers],
        )
    )


def attempt_blobs(sessions: int, per_session: int, first: int = 1) -> list[bytes]:
    """Make batches as a load of that many sessions would: each batch holds one message of many of them."""
    blobs = []
    for seq in range(1, per_session + 1):
        base = 10**11 + seq * 1_000_000
        attempts = [Attempt(n, 0, seq, 0, base + n, base + n + 300) for n in range(first, first + sessions)]
        blobs.extend(encode_batch(Batch(attempts=attempts[i : i + 500])) for i in range(0, sessions, 500))
    return blobs


def take(intake: Intake, blobs: list[bytes], number: int) -> int:
    for blob in blobs:
        number += 1
        batch = decode_batch(blob, zlib.crc32(blob))
        intake.take(WorkerBatch(f"{number}-0", "w1", "host", 0, number, batch), number)
    return number


def per_second(count: int, work: Callable[[], object], rounds: int = 3) -> float:
    """Return the rate in CPU seconds, the best of some rounds."""
    best = 0.0
    for _ in range(rounds):
        gc.collect()
        started = time.process_time()
        work()
        best = max(best, count / (time.process_time() - started))
    return best


def bench_intake() -> list[Row]:
    count = SESSIONS * PER_SESSION
    blobs = [opening(SESSIONS), *attempt_blobs(SESSIONS, PER_SESSION)]

    def ours() -> None:
        state, intake = new_state()
        take(intake, blobs, 0)
        assert state.tally.stores[STORE].acknowledged == count

    lines = [
        json.dumps({"session": n, "writer": 0, "seq": s, "outcome": 0, "sent": s * 1_000_000 + n, "ended": s})
        for s in range(1, PER_SESSION + 1)
        for n in range(1, SESSIONS + 1)
    ]

    def plain() -> None:
        acked: dict[int, int] = {}
        for line in lines:
            record = json.loads(line)
            acked[record["session"]] = max(acked.get(record["session"], 0), record["seq"])

    baseline = per_second(count, plain, rounds=1)
    return [
        Row(
            "ledger records taken in, per core second",
            per_second(count, ours),
            baseline,
            "json.loads a line",
            ">= 1,000,000",
        )
    ]


async def bench_reading(url: str) -> list[Row]:
    """Read histories of 200 back from Redis, compare each message byte for byte, and judge."""
    author = Author("r1", 1)
    store = await open_store(STORE, StoreContext(servers={"redis": url}, namespace="bench"))
    books = []
    for number in range(1, 201):
        book = SessionBook(f"w1-{number}-chat", STORE)
        book.lease(0, PER_SESSION)
        for seq in range(1, PER_SESSION + 1):
            book.acknowledge(Attempt(number, 0, seq, 0, seq * 1_000, seq * 1_000 + 300))
        await asyncio.gather(
            *(store.append(book.session, author.write(book.session, 0, seq)) for seq in range(1, PER_SESSION + 1))
        )
        books.append(book)
    count = len(books) * PER_SESSION

    async def examine(book: SessionBook, *, fresh: bool) -> None:
        if fresh:
            book.restand([])
        read = Read(invoked=10**9, returned=10**9 + 1, acked=book.acked_now(), items=await store.history(book.session))
        judgement = judge(book, read, RULES, author)
        assert judgement.is_clean
        assert len(read.items) == PER_SESSION
        absorb(book, judgement, read, remember_us=0)

    async def all_books(*, fresh: bool) -> float:
        started = time.process_time()
        for at in range(0, len(books), 20):
            await asyncio.gather(*(examine(book, fresh=fresh) for book in books[at : at + 20]))
        return count / (time.process_time() - started)

    plain = redis.asyncio.from_url(url)
    key = next(iter(await plain.keys("bench*")))

    async def baseline() -> float:
        started = time.process_time()
        for _ in range(100):
            for row in await plain.lrange(key, 0, -1):
                assert row
        return 100 * PER_SESSION / (time.process_time() - started)

    first = max([await all_books(fresh=True) for _ in range(3)])
    again = max([await all_books(fresh=False) for _ in range(5)])
    bare = max([await baseline() for _ in range(3)])
    await plain.aclose()
    await store.clean_up()  # type: ignore[attr-defined]
    await store.close()
    return [
        Row("messages read back the first time and judged", first, bare, "redis.asyncio LRANGE, not even decoded", ""),
        Row("messages read back again and judged", again, bare, "redis.asyncio LRANGE, not even decoded", ">= 400,000"),
    ]


def verify_all(state: State, author: Author) -> None:
    for watched in state.watched():
        book = watched.book
        items = [author.write(book.session, writer, seq) for writer, b in enumerate(book.writers) for seq in b.acked]
        read = Read(invoked=10**12, returned=10**12 + 1, acked=book.acked_now(), items=items)
        judgement = judge(book, read, RULES, author)
        assert judgement.is_clean
        absorb(book, judgement, read, remember_us=0)
        watched.hot = False
        state.lanes[STORE].hot.pop(watched, None)


def bench_memory() -> list[Row]:
    """Let sessions come and go in cohorts, the same number of them alive all the time."""
    author = Author("r1", 1)
    cohort, cohorts_alive, length = 200, 10, 25
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    state, intake = new_state()
    number = 0
    sizes = {}
    acknowledged = 0
    first = 1_000_001
    while acknowledged < 1_000_000:
        for watched in [w for w in state.watched() if w.number < first - (cohorts_alive - 1) * cohort]:
            state.let_go(watched)
        number = take(intake, [opening(cohort, first, length), *attempt_blobs(cohort, length, first)], number)
        verify_all(state, author)
        acknowledged += cohort * length
        first += cohort
        lane = state.lanes[STORE]
        lane.diary = {slot: [w for w in planned if not w.retired] for slot, planned in lane.diary.items()}
        if acknowledged in {100_000, 1_000_000}:
            gc.collect()
            sizes[acknowledged] = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    sessions = len(state.watched())
    return [
        Row("bytes of state per live session", sizes[1_000_000] / sessions, 1024, "1 KiB", "<= 1.0 x"),
        Row("state after 1,000,000 messages", sizes[1_000_000], sizes[100_000], "state after 100,000", "<= 1.0 x"),
    ]


async def main() -> None:
    rows = bench_intake()
    with tempfile.TemporaryDirectory() as folder:
        testbed = LocalTestbed(Path(folder))
        urls = await testbed.start(["redis"])
        try:
            rows += await bench_reading(urls["redis"])
        finally:
            await testbed.stop()
    rows += bench_memory()
    print_rows("verifier", rows)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
