"""The verifier's hot paths: ledger records taken in, histories read back and judged, memory per session.

Run with `python -m tests.benchmarks.bench_verifier`. Baselines are measured in the same run, because only ratios mean
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

from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultHistory
from soak.checker.outcome import Attempt
from soak.checker.read import Read, Rules
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.text import MessageGenerator
from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, Lease, Open, decode_batch, encode_batch
from soak.servers.local import LocalServers
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from soak.verifier.intake import Intake
from soak.verifier.state import State
from tests.support.benchmark_report import Row, print_rows
from tests.support.run_headers import header_of

STORE = "redis-list"
SESSIONS = 2_000
PER_SESSION = 200
HISTORIES = 200
ROUNDS = 5
MESSAGES_FEW, MESSAGES_MANY = 75_000, 150_000
"""State is measured after so many, as many sessions live each time; it must not grow in between. Every allocation is
traced, so more takes minutes."""
BARE = "redis.asyncio LRANGE, not even decoded"
RULES = Rules(contract=Contract())
AUTHOR = MessageGenerator("r1", 1)
SETTLE_US = 2_000_000


def new_state() -> tuple[State, Intake]:
    header = header_of({STORE: Contract()}, namespace="bench")
    state = State(header, {STORE: ("redis",)}, 60_000_000)
    return state, Intake(state, {STORE: RULES}, "host")


def new_judging() -> StoreJudging:
    targets = {STORE: ("redis",)}
    return StoreJudging(
        rules=RULES, author=AUTHOR, faults=FaultHistory(targets), targets=targets[STORE], settle_us=SETTLE_US
    )


def observe(judging: StoreJudging, book: ExpectedSession, read: Read) -> None:
    """Judge a read the way the verifier does, and take it in."""
    checker = SessionChecker(judging, book)
    judged = checker.judge_clean(read)
    assert judged is not None
    observed = checker.observe(read, None, judged)
    assert observed.before is None
    assert not book.pending


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
    blobs: list[bytes] = []
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
            ">= 1,700,000",
        )
    ]


def session_name(number: int) -> str:
    return f"w1-{number}-chat"


def new_book(number: int) -> ExpectedSession:
    """Return the book of a session that nobody has read yet."""
    book = ExpectedSession(session_name(number), STORE)
    book.lease(0, PER_SESSION)
    for seq in range(1, PER_SESSION + 1):
        book.acknowledge(Attempt(number, 0, seq, 0, seq * 1_000, seq * 1_000 + 300))
    return book


async def bench_reading(url: str) -> list[Row]:
    """Read histories of 200 back from Redis, compare each message byte for byte, and judge."""
    judging = new_judging()
    store = await open_store(STORE, StoreContext(servers={"redis": url}, namespace="bench"))
    for number in range(1, HISTORIES + 1):
        session = session_name(number)
        await asyncio.gather(
            *(store.append(session, AUTHOR.write(session, 0, seq)) for seq in range(1, PER_SESSION + 1))
        )

    async def examine(book: ExpectedSession) -> None:
        acked, items = book.acked_now(), await store.history(book.session)
        assert len(items) == PER_SESSION
        observe(judging, book, Read(invoked=10**9, returned=10**9 + 1, acked=acked, items=items))

    async def all_books(books: list[ExpectedSession]) -> float:
        started = time.process_time()
        for at in range(0, len(books), 20):
            await asyncio.gather(*(examine(book) for book in books[at : at + 20]))
        return HISTORIES * PER_SESSION / (time.process_time() - started)

    plain = redis.asyncio.from_url(url)
    key = next(iter(await plain.keys("bench*")))

    async def baseline() -> float:
        started = time.process_time()
        for _ in range(100):
            for row in await plain.lrange(key, 0, -1):
                assert row
        return 100 * PER_SESSION / (time.process_time() - started)

    firsts, agains, bares = [], [], []
    for _ in range(ROUNDS):
        books = [new_book(number) for number in range(1, HISTORIES + 1)]
        firsts.append(await all_books(books))
        agains.append(await all_books(books))
        bares.append(await baseline())
    first, again, bare = max(firsts), max(agains), max(bares)
    await plain.aclose()
    await store.clean_up()  # type: ignore[attr-defined]
    await store.close()
    return [
        Row("messages read back the first time and judged", first, bare, BARE, ">= 400,000"),
        Row("messages read back again and judged", again, bare, BARE, ">= 1,000,000"),
    ]


def verify_all(state: State, judging: StoreJudging) -> None:
    for watched in state.tracked():
        book = watched.book
        items = [AUTHOR.write(book.session, writer, seq) for writer, b in enumerate(book.writers) for seq in b.acked]
        # Times of its own, as in a soak: numbers that sessions share would cost nothing.
        invoked = 10**12 + watched.number
        observe(judging, book, Read(invoked=invoked, returned=invoked + 300, acked=book.acked_now(), items=items))
        watched.hot = False
        state.lanes[STORE].hot.pop(watched, None)


def bench_memory() -> list[Row]:
    """Let sessions come and go in cohorts, the same number of them alive all the time."""
    judging = new_judging()
    cohort, cohorts_alive, length = 200, 10, 25
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    state, intake = new_state()
    number = 0
    sizes = {}
    acknowledged = 0
    first = 1_000_001
    while acknowledged < MESSAGES_MANY:
        for watched in [w for w in state.tracked() if w.number < first - (cohorts_alive - 1) * cohort]:
            state.let_go(watched)
        number = take(intake, [opening(cohort, first, length), *attempt_blobs(cohort, length, first)], number)
        verify_all(state, judging)
        acknowledged += cohort * length
        first += cohort
        lane = state.lanes[STORE]
        lane.timers = {slot: [w for w in planned if not w.retired] for slot, planned in lane.timers.items()}
        if acknowledged in {MESSAGES_FEW, MESSAGES_MANY}:
            gc.collect()
            sizes[acknowledged] = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    sessions = len(state.tracked())
    return [
        Row("bytes of state per live session", sizes[MESSAGES_MANY] / sessions, 1024, "1 KiB", "<= 1.0 x"),
        Row(
            f"state after {MESSAGES_MANY:,} messages",
            sizes[MESSAGES_MANY],
            sizes[MESSAGES_FEW],
            f"state after {MESSAGES_FEW:,}",
            "<= 1.0 x",
        ),
    ]


async def main() -> None:
    # Each part is printed when it is there: on a busy machine the last one may take minutes.
    print_rows("verifier: ledger", bench_intake())
    with tempfile.TemporaryDirectory() as folder:
        testbed = LocalServers(Path(folder))
        urls = await testbed.start(["redis"])
        try:
            print_rows("verifier: reading", await bench_reading(urls["redis"]))
        finally:
            await testbed.stop()
    print_rows("verifier: memory", bench_memory())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
