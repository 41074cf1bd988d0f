"""A worker's pen: intents go in before anything is sent, outcomes follow in batches.

The life of a record: an intent (session opened, sequence numbers leased, forget intended) is awaited until the
ledger has it. An outcome is only noted, and goes out with the next batch, at most `flush` later; if the worker
is killed before, the outcome is missing and means `unknown`, never a blind spot.

A batch that got no answer is sent again with the same number, so the reader may see it twice but misses none.
While the ledger is away, or its reader is too far behind, `stalled` is true and writers wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import zlib
from bisect import bisect_left
from pathlib import Path
from typing import Self

from redis.exceptions import RedisError

from soak.ledger.connection import LedgerConnection
from soak.ledger.records import (
    LATENCY_BUCKETS_SECONDS,
    Attempt,
    Batch,
    ForgetIntent,
    ForgetOutcome,
    LatencyTally,
    Lease,
    Observation,
    Open,
    RunHeader,
    encode_batch,
    seal,
)
from soak.ledger.run import read_header
from soak.settings import LedgerSettings
from soak.tasks import end_tasks

HEARTBEAT_SECONDS = 1.0
GATHER_SECONDS = 0.005
RETRY_SECONDS_FIRST = 0.05
RETRY_SECONDS_MAX = 1.0
OBSERVATIONS_PER_BATCH_MAX = 64
STALL_POLL_SECONDS = 0.2
DRAIN_SECONDS_MAX = 10.0


def host_identity() -> str:
    """Name this boot of this host: two workers with the same one share a monotonic clock."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:13]


class LedgerWriter:
    """Records what one load process attempts. Used from one event loop."""

    def __init__(self, connection: LedgerConnection, header: RunHeader, settings: LedgerSettings, host: str) -> None:
        self.header = header
        self.worker = "w" + secrets.token_hex(4)
        self.lease_messages = settings.lease_messages
        self.stalled = False
        self._connection = connection
        self._settings = settings
        self._host = host
        self._clock_offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._sessions = 0
        self._number = 0
        self._batch = Batch()
        self._tallies: dict[tuple[str, str], LatencyTally] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._urgent = asyncio.Event()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closing = False
        self._flusher = asyncio.create_task(self._flush_forever())

    @classmethod
    async def connect(cls, url: str, settings: LedgerSettings, *, host: str | None = None) -> Self:
        header = await read_header(url)
        return cls(LedgerConnection(url, header.run), header, settings, host or host_identity())

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
        """Intend to send every message of this writer up to this one."""
        await self.ready()
        self._batch.leases.append(Lease(number, writer, upto))
        await self._written()

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
        tally = self._tallies.get((store, operation))
        if tally is None:
            counts = [0] * (len(LATENCY_BUCKETS_SECONDS) + 1)
            tally = self._tallies[store, operation] = LatencyTally(store, operation, counts, 0.0, 0)
        if failed:
            tally.errors += 1
        else:
            tally.counts[bisect_left(LATENCY_BUCKETS_SECONDS, seconds)] += 1
            tally.sum_seconds += seconds

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
        await end_tasks([self._flusher])
        await self._connection.close()

    async def _written(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._urgent.set()
        await future

    async def _flush_forever(self) -> None:
        last_sent = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), self._settings.flush)
                # Intents come in crowds, and blocks are leased ahead of need: a moment more saves most of the batches.
                await asyncio.sleep(GATHER_SECONDS)
            self._urgent.clear()
            closing = self._closing
            waiting, self._waiting = self._waiting, []
            batch = self._take()
            if batch is not None or time.monotonic() - last_sent >= HEARTBEAT_SECONDS:
                await self._send(batch or Batch())
                last_sent = time.monotonic()
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            if closing:
                return

    def _take(self) -> Batch | None:
        batch, self._batch = self._batch, Batch()
        batch.latencies = list(self._tallies.values())
        self._tallies = {}
        return None if batch == Batch() else batch

    async def _send(self, batch: Batch) -> None:
        self._number += 1
        blob = encode_batch(batch)
        crc = zlib.crc32(blob)
        fields = {
            "w": self.worker,
            "h": self._host,
            "o": self._clock_offset_us,
            "n": self._number,
            "c": crc,
            "s": seal(self.worker, self._host, self._clock_offset_us, self._number, crc),
            "b": blob,
        }
        pause = RETRY_SECONDS_FIRST
        while True:
            try:
                length = await self._add(fields)
            except (RedisError, OSError):
                self._stall()
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)
            else:
                break
        if length < self._settings.batches_max:
            self._flow()
        else:
            self._stall()
            await asyncio.sleep(STALL_POLL_SECONDS)

    async def _add(self, fields: dict[str, object]) -> int:
        pipe = self._connection.redis.pipeline(transaction=False)
        pipe.xadd(self._connection.keys.batches, fields)
        pipe.xlen(self._connection.keys.batches)
        _, length = await pipe.execute()
        return int(length)

    def _stall(self) -> None:
        self.stalled = True
        self._flowing.clear()

    def _flow(self) -> None:
        if self.stalled:
            self.stalled = False
            self._flowing.set()
