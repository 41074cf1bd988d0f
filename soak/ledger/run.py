"""The head of a ledger: which run it belongs to, and the records that are about the run as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import msgspec
from redis.exceptions import RedisError, ResponseError

from soak.errors import ServerUnreachableError, UsageError
from soak.json_input import decode_json
from soak.ledger.clock import EXCHANGES_FIRST, LedgerClock
from soak.ledger.connection import CURRENT_KEY, LedgerConnection, keys_of, reaching, read_life, unreachable
from soak.ledger.records import FORMAT_VERSION, EndOfLoad, FaultPhase, RunHeader, seal, this_host
from soak.ledger.shards import count_verifiers
from soak.tasks import end_tasks

WATCH_SECONDS = 1.0
AGAIN_SECONDS = 300.0
"""A server that comes back, or takes over, may be without the records of so long."""
AGAIN_MAX = 1_000
_Record = TypeVar("_Record", FaultPhase, EndOfLoad)


async def create_run(url: str, header: RunHeader) -> None:
    """Write the header of a run and make it the one that joins find. Doing it again changes nothing."""
    async with reaching(url) as redis:
        await redis.set(keys_of(header.run).header, msgspec.json.encode(header))
        await redis.set(CURRENT_KEY, header.run)


async def read_header(url: str, run: str | None = None) -> RunHeader:
    """Return the header of a run; without a name, of the run begun last."""
    async with reaching(url) as redis:
        current = await redis.get(CURRENT_KEY)
        if current is None:
            raise UsageError("the ledger holds no run; start one with 'soak run', or point ledger.url at its ledger")
        name = run or current.decode()
        raw = await redis.get(keys_of(name).header)
    if raw is None:
        raise UsageError(f"the ledger holds run {current.decode()}, not {name}; name that one or use another ledger")
    return _decode_header(raw)


def _decode_header(raw: bytes) -> RunHeader:
    try:
        version = decode_json(raw, type=dict[str, object]).get("version")
        if version != FORMAT_VERSION:
            raise UsageError(
                f"the ledger is of format {version}, this soak reads format {FORMAT_VERSION}; "
                "finish that run with the soak that began it, or use an empty ledger"
            )
        return decode_json(raw, type=RunHeader)
    except msgspec.MsgspecError as error:
        raise UsageError(f"the ledger's header cannot be read ({error}); use an empty ledger") from error


class RunJournal:
    """Writes what is about the run as a whole: fault windows, and the end of the load.

    Its records have no number, so nobody would miss one. When the ledger is in another life, which may be without the
    last of them, they are written again; readers drop what they have on record.
    """

    def __init__(self, url: str, run: str) -> None:
        self._run = run
        self._connection = LedgerConnection(url, run)
        self._clock = LedgerClock(self._connection.redis.time)
        self._life = ""
        self._written: deque[tuple[float, dict[str, Any]]] = deque(maxlen=AGAIN_MAX)
        self._writing = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, url: str, run: str | None = None) -> Self:
        header = await read_header(url, run)
        return cls(url, header.run)

    async def fault(self, phase: FaultPhase) -> None:
        await self.faults(phase)

    async def faults(self, *phases: FaultPhase) -> None:
        """Write several records, all of them or none."""
        await self._write(*[_fields("fault", msgspec.json.encode(await self._timed(phase))) for phase in phases])

    async def end_of_load(self, end: EndOfLoad) -> None:
        """Write that the load has ended, with the host that says so."""
        await self._write(_fields("end", msgspec.json.encode(await self._timed(end))))

    async def _timed(self, record: _Record) -> _Record:
        """Say whose clock the time of a record is of, and how that stands to the ledger's."""
        if not self._clock.is_fresh():
            try:
                await self._clock.measure(EXCHANGES_FIRST)
            except ResponseError:
                pass  # its server does not say what time it is: nobody on another host can place the record
            except (RedisError, OSError) as error:
                raise unreachable(self._connection.url, error) from error
        host, reading = this_host(), self._clock.reading()
        return msgspec.structs.replace(
            record,
            host=host.name,
            boot=host.boot,
            clock_offset_us=0 if reading is None else reading.offset_us,
            clock_error_us=None if reading is None else reading.error_us,
        )

    async def _write(self, *records: dict[str, Any]) -> None:
        """Write records for every verifier, all of them or none."""
        async with self._writing:
            await self._write_again_if_lost()
            await self._add(records)
            self._written.extend((time.monotonic(), fields) for fields in records)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with contextlib.suppress(ServerUnreachableError):
                async with self._writing:
                    await self._write_again_if_lost()

    async def _write_again_if_lost(self) -> None:
        """Write what was written lately once more, if another server answers than before, or another life of it."""
        try:
            life = str(await read_life(self._connection.redis))
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error
        if self._life and life and life != self._life:
            since = time.monotonic() - AGAIN_SECONDS
            await self._add([fields for written, fields in self._written if written >= since])
        self._life = life or self._life

    async def _add(self, records: Sequence[dict[str, Any]]) -> None:
        try:
            # Asked each time: there may be more verifiers than when we connected.
            shards = await count_verifiers(self._connection.redis, self._run)
            async with self._connection.redis.pipeline(transaction=True) as pipe:
                for shard in range(1, shards + 1):
                    for fields in records:
                        pipe.xadd(keys_of(self._run, shard).batches, fields)
                await pipe.execute()
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error

    async def close(self) -> None:
        await end_tasks([] if self._watching is None else [self._watching])
        await self._connection.close()


def _fields(kind: str, blob: bytes) -> dict[str, Any]:
    crc = zlib.crc32(blob)
    return {"k": kind, "c": crc, "s": seal(kind, crc), "b": blob}
