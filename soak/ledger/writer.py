"""A worker's pen: intents go in before anything is sent, outcomes follow in batches.

The life of a record: an intent (session opened, sequence numbers leased, forget intended) is awaited until the
ledger has it. An outcome is only noted, and goes out with the next batch, at most `flush` later; if the worker
is killed before, the outcome is missing and means `unknown`, never a blind spot.

A batch that got no answer is sent again with the same number, so the reader may see it twice but misses none.
While the ledger is away or too large, or the verifier asks for it, `stalled` is true and writers wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import zlib
from typing import Any, Self

import msgspec
from redis.exceptions import RedisError

from soak.clock import now_us
from soak.histogram import bucket_of
from soak.ledger.clock import EXCHANGES_FIRST, LedgerClock
from soak.ledger.connection import LedgerConnection
from soak.ledger.records import (
    LATENCY_SLOT_US,
    Attempt,
    Batch,
    ForgetIntent,
    ForgetOutcome,
    Host,
    LatencyTally,
    Lease,
    Observation,
    Open,
    RunHeader,
    VerifierBacklog,
    encode_batch,
    seal,
    this_host,
)
from soak.ledger.run import read_header
from soak.ledger.shards import ALIVE_SECONDS, WHOLE, DealtWorker, Shard, deal
from soak.settings import LedgerSettings
from soak.store_errors import StoreErrors
from soak.tasks import end_tasks

HEARTBEAT_SECONDS = 1.0
GATHER_SECONDS = 0.005
RETRY_SECONDS_FIRST = 0.05
RETRY_SECONDS_MAX = 1.0
OBSERVATIONS_PER_BATCH_MAX = 64
STALL_POLL_SECONDS = 0.2
MEASURE_SECONDS = 1.0
"""How often the ledger's size is asked for: its server looks at all of it for the answer."""
DRAIN_SECONDS_MAX = 10.0
UNMEASURED = -1
"""In place of an error: the ledger's server does not say what time it is."""


class LedgerWriter:
    """Records what one load process attempts. Used from one event loop."""

    kind = "load"
    """Workers are dealt to shards by kind."""

    def __init__(
        self,
        connection: LedgerConnection,
        header: RunHeader,
        settings: LedgerSettings,
        host: Host,
        clock: LedgerClock,
        shard: Shard = WHOLE,
        worker: str = "",
    ) -> None:
        self.header = header
        self.worker = worker or _new_name()
        self.lease_messages = settings.lease_messages
        self.stalled = False
        self.progress: VerifierBacklog | None = None
        """What the verifier last said of itself; None: it has not been heard of for a while."""
        self._asked = 0.0
        self.read_up_to: float | None = None
        """What was acknowledged by this time has been read, as the verifier last said; None: it was never heard of."""
        self._connection = connection
        self._settings = settings
        self._seat = None if shard.of == 1 else str(DealtWorker(self.kind, shard.number, self.worker))
        self._shards = shard.of
        """How many streams share the bounds of the ledger."""
        self._host = host
        self._clock = clock
        self._sessions = 0
        self._number = 0
        self._bytes = 0
        self._measured = 0.0
        self._batch = Batch()
        self._tallies: dict[tuple[str, str, int], LatencyTally] = {}
        self._errors = StoreErrors()
        self._waiting: list[asyncio.Future[None]] = []
        self._urgent = asyncio.Event()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closing = False
        self._flusher = asyncio.create_task(self._flush_forever())
        self._measuring = asyncio.create_task(self._clock.run())

    @classmethod
    async def connect(cls, url: str, settings: LedgerSettings, *, host: Host | None = None) -> Self:
        header = await read_header(url)
        worker = _new_name()
        shard = await deal(url, header.run, worker, cls.kind)
        connection = LedgerConnection(url, header.run, shard=shard.number)
        clock = LedgerClock(connection.redis.time)
        await clock.try_to_measure(EXCHANGES_FIRST)  # before there is any load: it is never known better
        return cls(connection, header, settings, host or this_host(), clock, shard, worker)

    async def open_session(self, session: str, store: str, writers: int) -> int:
        """Begin a session and lease the first block of each of its writers."""
        await self.ready()
        self._sessions += 1
        number = self._sessions
        self._batch.opens.append(Open(number, session, store))
        self._batch.leases.extend(Lease(number, writer, self.lease_messages) for writer in range(writers))
        await self._written()
        return number

    async def lease(self, number: int, writer: int, upto: int) -> None:
        """Intend to send every message of this writer up to this one. It goes out with the next batch that is due."""
        await self.ready()
        self._batch.leases.append(Lease(number, writer, upto))
        await self._written(is_urgent=False)

    def hurry(self) -> None:
        """Let nobody wait until the next batch is due."""
        self._urgent.set()

    def attempted(self, number: int, writer: int, seq: int, outcome: int, sent_us: int, ended_us: int) -> None:
        self._batch.attempts.append(Attempt(number, writer, seq, outcome, sent_us, ended_us))

    async def intend_forget(self, number: int, sent_us: int) -> None:
        await self.ready()
        self._batch.forget_intents.append(ForgetIntent(number, sent_us))
        await self._written()

    def forgot(self, number: int, outcome: int, sent_us: int, ended_us: int) -> None:
        self._batch.forget_outcomes.append(ForgetOutcome(number, outcome, sent_us, ended_us))

    def close_session(self, number: int) -> None:
        self._batch.closes.append(number)

    def observe(self, observation: Observation) -> None:
        """Report a read that did not look right. A flood is cut short, and the cut is counted."""
        if len(self._batch.observations) < OBSERVATIONS_PER_BATCH_MAX:
            self._batch.observations.append(observation)
        else:
            self._batch.suppressed_observations += 1

    def latency(self, store: str, operation: str, seconds: float, failed: bool) -> None:  # noqa: FBT001
        """Count an operation that has just ended."""
        key = (store, operation, now_us() // LATENCY_SLOT_US)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = LatencyTally(*key)
        bucket = bucket_of(seconds)
        if failed:
            tally.errors[bucket] = tally.errors.get(bucket, 0) + 1
        else:
            tally.counts[bucket] = tally.counts.get(bucket, 0) + 1
            tally.sum_seconds += seconds
            tally.max_seconds = max(tally.max_seconds, seconds)

    def raised(self, store: str, operation: str, error: BaseException) -> None:
        """Count an exception of a store; the next batch says what it was, and where it was raised."""
        self._errors.note(store, operation, error, time.time())

    async def ready(self) -> None:
        """Wait while the ledger is away or too full: nothing is written unrecorded."""
        if self.stalled:
            await self._flowing.wait()

    async def close(self) -> None:
        """Write what is left and say goodbye; gives up after a bounded time. Closing again does nothing."""
        if self._closing:
            return
        self._closing = True
        self._batch.farewell = True
        self._urgent.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._flusher), DRAIN_SECONDS_MAX)
        await end_tasks([self._flusher, self._measuring])
        if self._seat is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._connection.redis.zrem(self._connection.keys.workers, self._seat)
        await self._connection.close()

    async def _written(self, *, is_urgent: bool = True) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if is_urgent:
            self._urgent.set()
        await future

    async def _flush_forever(self) -> None:
        last_sent = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), self._settings.flush)
                # Intents come in crowds: a moment more saves most of the batches.
                await asyncio.sleep(GATHER_SECONDS)
            self._urgent.clear()
            closing = self._closing
            waiting, self._waiting = self._waiting, []
            batch = self._take()
            if batch is not None or time.monotonic() - last_sent >= HEARTBEAT_SECONDS:
                await self._send(batch or Batch())
                last_sent = time.monotonic()
            elif self.stalled:
                await self._look()
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            if closing:
                return

    def _take(self) -> Batch | None:
        batch, self._batch = self._batch, Batch()
        batch.latencies = list(self._tallies.values())
        self._tallies = {}
        batch.errors, self._errors = self._errors.listed(), StoreErrors()
        return None if batch == Batch() else batch

    async def _send(self, batch: Batch) -> None:
        self._number += 1
        blob = encode_batch(batch)
        crc = zlib.crc32(blob)
        reading = self._clock.reading()
        offset, error = (0, UNMEASURED) if reading is None else reading
        marks = (self._host.name, self._host.boot, offset, error, self._number, crc)
        fields = {
            "w": self.worker,
            **dict(zip("huoenc", marks, strict=True)),
            "s": seal(self.worker, *marks),
            "b": blob,
        }
        pause = RETRY_SECONDS_FIRST
        while True:
            try:
                batches = await self._ask(fields)
            except (RedisError, OSError):
                self._stall()
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)
            else:
                break
        await self._wait_or_flow(batches)

    async def _look(self) -> None:
        """See whether what stalls the writers is over."""
        try:
            batches = await self._ask(None)
        except (RedisError, OSError):
            await asyncio.sleep(STALL_POLL_SECONDS)
        else:
            await self._wait_or_flow(batches)

    async def _wait_or_flow(self, batches: int) -> None:
        settings, progress = self._settings, self.progress
        is_full = batches >= settings.batches_max / self._shards or self._bytes >= settings.bytes_max / self._shards
        if is_full or (progress is not None and progress.hold):
            self._stall()
            await asyncio.sleep(STALL_POLL_SECONDS)
        else:
            self._flow()

    async def _ask(self, fields: dict[str, object] | None) -> int:
        """Add a batch, if there is one, and learn how large the ledger is and how far its reader has come."""
        keys = self._connection.keys
        pipe = self._connection.redis.pipeline(transaction=False)
        if fields is not None:
            pipe.xadd(keys.batches, fields)
        pipe.xlen(keys.batches)
        pipe.get(keys.progress)
        if is_due := time.monotonic() - self._measured >= MEASURE_SECONDS:
            pipe.memory_usage(keys.batches, samples=0)
            if self._seat is not None:
                pipe.zadd(keys.workers, {self._seat: self._ledger_seconds() + ALIVE_SECONDS})
        answers = await pipe.execute(raise_on_error=False)
        if is_due:
            if self._seat is not None:
                answers.pop()  # if that failed, the next one will tell
            # A server of somebody else's may not tell; then the number of batches is the only bound.
            said = answers.pop()
            self._bytes, self._measured = said if isinstance(said, int) else 0, time.monotonic()
        if error := next((answer for answer in answers if isinstance(answer, Exception)), None):
            raise error
        self._hear(_progress(answers[-1]))
        return int(answers[-2])

    def _ledger_seconds(self) -> float:
        """Return what time it is by the ledger's clock."""
        reading = self._clock.reading()
        return time.time() if reading is None else (now_us() + reading.offset_us) / 1e6

    def _hear(self, progress: VerifierBacklog | None) -> None:
        """Take in what the verifier says; if it is news, it was said after it had been asked for last."""
        known, self.progress = self.progress, progress
        if progress is not None and (known is None or progress.stamp != known.stamp):
            self.read_up_to = max(self.read_up_to or 0.0, self._asked - progress.oldest_unread_seconds)
        self._asked = time.monotonic()

    def _stall(self) -> None:
        self.stalled = True
        self._flowing.clear()

    def _flow(self) -> None:
        if self.stalled:
            self.stalled = False
            self._flowing.set()


def _new_name() -> str:
    return "w" + secrets.token_hex(4)


def _progress(raw: Any) -> VerifierBacklog | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=VerifierBacklog)
    except msgspec.MsgspecError:
        return None
