"""The head of a ledger: which run it belongs to, and the records that are about the run as a whole."""

from __future__ import annotations

import zlib
from typing import Any, Self, TypeVar

import msgspec
from redis.exceptions import RedisError, ResponseError

from soak.errors import UsageError
from soak.json_input import decode_json
from soak.ledger.clock import EXCHANGES_FIRST, LedgerClock
from soak.ledger.connection import LedgerConnection, keys_of, reaching, unreachable
from soak.ledger.records import FORMAT_VERSION, EndOfLoad, FaultPhase, RunHeader, seal, this_host

_CURRENT_KEY = "soak:ledger:current"
_Record = TypeVar("_Record", FaultPhase, EndOfLoad)


async def create_run(url: str, header: RunHeader) -> None:
    """Write the header of a run and make it the one that joins find. Doing it again changes nothing."""
    async with reaching(url) as redis:
        await redis.set(keys_of(header.run).header, msgspec.json.encode(header))
        await redis.set(_CURRENT_KEY, header.run)


async def read_header(url: str, run: str | None = None) -> RunHeader:
    """Return the header of a run; without a name, of the run begun last."""
    async with reaching(url) as redis:
        current = await redis.get(_CURRENT_KEY)
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
    """Writes what is about the run as a whole: fault windows, and the end of the load."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection
        self._clock = LedgerClock(connection.redis.time)

    @classmethod
    async def connect(cls, url: str, run: str | None = None) -> Self:
        header = await read_header(url, run)
        return cls(LedgerConnection(url, header.run))

    async def fault(self, phase: FaultPhase) -> None:
        await self._write("fault", msgspec.json.encode(await self._timed(phase)))

    async def faults(self, *phases: FaultPhase) -> None:
        """Write several records, all of them or none."""
        entries = [_fields("fault", msgspec.json.encode(await self._timed(phase))) for phase in phases]
        try:
            async with self._connection.redis.pipeline(transaction=True) as pipe:
                for fields in entries:
                    pipe.xadd(self._connection.keys.batches, fields)
                await pipe.execute()
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error

    async def end_of_load(self, end: EndOfLoad) -> None:
        """Write that the load has ended, with the host that says so."""
        await self._write("end", msgspec.json.encode(await self._timed(end)))

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

    async def _write(self, kind: str, blob: bytes) -> None:
        try:
            await self._connection.redis.xadd(self._connection.keys.batches, _fields(kind, blob))
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error

    async def close(self) -> None:
        await self._connection.close()


def _fields(kind: str, blob: bytes) -> dict[str, Any]:
    crc = zlib.crc32(blob)
    return {"k": kind, "c": crc, "s": seal(kind, crc), "b": blob}
