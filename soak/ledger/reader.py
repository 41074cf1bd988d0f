"""Reads the ledger back, in order, and drops what every checkpoint has passed."""

from __future__ import annotations

import zlib
from typing import NamedTuple, Self

import msgspec
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from soak.json_input import decode_json
from soak.ledger.connection import TIMEOUT_SECONDS, LedgerConnection, ask_life, is_of_this_machine, life_of, unreachable
from soak.ledger.records import (
    BadRecordError,
    Batch,
    EndOfLoad,
    FaultPhase,
    RunHeader,
    VerifierBacklog,
    decode_batch,
    seal,
)
from soak.ledger.run import read_header
from soak.tasks import raise_if_cancelled

START = "0-0"
BATCHES_PER_READ_MAX = 200


class WorkerBatch(NamedTuple):
    """A batch of one worker, with its place in the ledger."""

    at: str
    worker: str
    boot: str
    """Which boot of which host its times are of."""
    clock_offset_us: int
    """The ledger's time less that host's, as it was measured, to compare its times with another host's."""
    number: int
    batch: Batch
    host: str = ""
    """The name of that host."""
    clock_error_us: int | None = None
    """By how much the offset may be wrong; None: it could not be measured."""


class RunRecord(NamedTuple):
    """A record about the run as a whole."""

    at: str
    record: FaultPhase | EndOfLoad


class Damaged(NamedTuple):
    """A record that cannot be read; what it said is lost, and that is counted."""

    at: str
    worker: str | None
    number: int | None
    reason: str
    is_foreign: bool = False
    """It has nothing of a record of ours: somebody else wrote it, and no record is missing in its place."""
    is_end: bool = False
    """It says, as far as can be read, that the load has ended."""


Entry = WorkerBatch | RunRecord | Damaged


class Extent(NamedTuple):
    """How far the ledger reaches."""

    last: str
    """The place of the last record that is there."""
    newest: str
    """The place of the last record that was ever written."""
    added: int | None
    """How many records were ever written; None if its server does not count them."""
    is_trimmed_only: bool = False
    """All that is missing was dropped from the beginning, as `trim_before` does."""
    life: str = ""
    """Which life of which server says so; empty: it does not tell."""
    is_kept: bool = False
    """The life before can have taken nothing with it: it was a process of this machine with an append-only file."""


class LedgerReader:
    """Follows the ledger of one run."""

    def __init__(self, connection: LedgerConnection, header: RunHeader) -> None:
        self.header = header
        self._connection = connection

    @classmethod
    async def connect(cls, url: str, run: str | None = None, *, shard: int = 1) -> Self:
        header = await read_header(url, run)
        # XREAD blocks on purpose, so the socket must be more patient than the longest block.
        connection = LedgerConnection(url, header.run, shard=shard, read_timeout_seconds=2 * TIMEOUT_SECONDS)
        return cls(connection, header)

    async def read(self, after: str, *, block_seconds: float) -> list[Entry]:
        """Return what follows, or nothing when nothing came in time."""
        try:
            answer = await self._connection.redis.xread(
                {self._connection.keys.batches: after},
                count=BATCHES_PER_READ_MAX,
                block=max(1, int(block_seconds * 1000)),
            )
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error
        raise_if_cancelled()
        return [_entry(at.decode(), fields) for at, fields in _entries(answer)]

    async def extent(self) -> Extent:
        """Return how far the ledger reaches, so that one can tell whether everything in it was taken in."""
        # In one transaction: all answers are of one server.
        pipe = self._connection.redis.pipeline(transaction=True)
        pipe.xinfo_stream(self._connection.keys.batches)
        ask_life(pipe)
        try:
            answer, *told = await pipe.execute(raise_on_error=False)
            life = life_of(*told)
            if life.is_replica:
                # A primary that was demoted: what it has is not what writers have written since.
                await self._connection.redis.connection_pool.disconnect()
                raise ReadOnlyError("it has become a replica")
            if isinstance(answer, ResponseError):
                return Extent(START, START, 0, life=str(life))  # nothing was written yet
            if isinstance(answer, Exception):
                raise answer
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error
        raise_if_cancelled()
        first, last, deleted = answer["first-entry"], answer["last-entry"], answer.get("max-deleted-entry-id")
        return Extent(
            last=last[0].decode() if last else START,
            newest=answer["last-generated-id"].decode(),
            added=answer.get("entries-added"),
            is_trimmed_only=bool(first and deleted and is_before(deleted.decode(), first[0].decode())),
            life=str(life),
            is_kept=life.is_logged and is_of_this_machine(self._connection.url),
        )

    async def faults_begun(self) -> set[str]:
        """Name the faults whose beginning is still in the ledger."""
        begun: set[str] = set()
        at = START
        while entries := await self.read(at, block_seconds=0.001):
            records = [entry.record for entry in entries if isinstance(entry, RunRecord)]
            begun |= {one.fault for one in records if isinstance(one, FaultPhase) and one.phase == "start"}
            at = entries[-1].at
        return begun

    async def trim_before(self, at: str) -> None:
        """Drop every record before this one."""
        try:
            await self._connection.redis.xtrim(self._connection.keys.batches, minid=at, approximate=False)
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error

    async def time(self) -> tuple[int, int]:
        """Ask the ledger's server what time it is: seconds and microseconds."""
        seconds, microseconds = await self._connection.redis.time()
        return seconds, microseconds

    async def publish(self, progress: VerifierBacklog, *, valid_seconds: float) -> None:
        """Say how far the verifier has come; after that time nobody believes it any more."""
        try:
            await self._connection.redis.set(
                self._connection.keys.progress, msgspec.json.encode(progress), px=int(valid_seconds * 1000)
            )
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error

    async def close(self) -> None:
        await self._connection.close()


def is_before(one: str, other: str) -> bool:
    """Whether one place in the ledger comes before another."""
    return _place(one) < _place(other)


def milliseconds_of(at: str) -> int:
    """Return when a record was written, by the clock of the ledger's server."""
    return int(at.partition("-")[0])


def _place(at: str) -> tuple[int, int]:
    milliseconds, _, sequence = at.partition("-")
    return int(milliseconds), int(sequence)


def _entries(answer: object) -> list[tuple[bytes, dict[bytes, bytes]]]:
    # RESP2 answers with a list of pairs, RESP3 with a mapping whose values are lists of lists.
    if isinstance(answer, dict):
        return [entry for lists in answer.values() for entries in lists for entry in entries]
    return [entry for _, entries in answer or [] for entry in entries]  # type: ignore[attr-defined]


def _entry(at: str, fields: dict[bytes, bytes]) -> Entry:
    worker: str | None = None
    number: int | None = None
    try:
        if b"k" in fields:
            return RunRecord(at, _run_record(fields))
        worker, number = fields[b"w"].decode(), int(fields[b"n"])
        host, boot = fields[b"h"].decode(), fields[b"u"].decode()
        offset, error, crc = int(fields[b"o"]), int(fields[b"e"]), int(fields[b"c"])
        _check_seal(fields, worker, host, boot, offset, error, number, crc)
        batch = decode_batch(fields[b"b"], crc)
        return WorkerBatch(at, worker, boot, offset, number, batch, host, None if error < 0 else error)
    except (KeyError, ValueError) as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        is_foreign = not _OURS & fields.keys()
        return Damaged(at, worker, number, reason, is_foreign, is_end=fields.get(b"k") == b"end")


_OURS = {b"w", b"h", b"u", b"o", b"e", b"n", b"c", b"s", b"b", b"k"}


def _check_seal(fields: dict[bytes, bytes], *marks: object) -> None:
    if b"s" not in fields:
        raise BadRecordError("it has no seal: it was written by an older soak")
    if int(fields[b"s"]) != seal(*marks):
        raise BadRecordError("its seal does not fit")


def _run_record(fields: dict[bytes, bytes]) -> FaultPhase | EndOfLoad:
    blob, crc, kind = fields[b"b"], int(fields[b"c"]), fields[b"k"].decode()
    _check_seal(fields, kind, crc)
    if zlib.crc32(blob) != crc:
        raise BadRecordError("checksum does not fit")
    if kind == "fault":
        return decode_json(blob, type=FaultPhase)
    if kind == "end":
        return decode_json(blob, type=EndOfLoad)
    raise BadRecordError(f"unknown record {kind!r}")
