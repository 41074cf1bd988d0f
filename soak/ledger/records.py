"""What the ledger holds: batches of a worker's records, each batch numbered and with a checksum.

A worker is one incarnation of one load process; its batches count 1, 2, 3 ... so that a reader notices a gap
and drops a batch that was sent twice. Sessions are numbered per worker to keep records small.
Times are microseconds of CLOCK_MONOTONIC on the worker's host.

What stands around a batch (whose it is, its number, its host's clock) has a seal of its own: a number changed by one
bit would make the batch pass for a repeated one and be dropped, a changed clock would move every time in it.
"""

from __future__ import annotations

import socket
import zlib
from typing import NamedTuple

import msgspec

from soak.checker.contract import Contract
from soak.checker.faults import Excuse, Promotion
from soak.checker.outcome import Attempt, OutcomeNumber, Seq, WriterNumber
from soak.clock import timeline
from soak.histogram import Buckets
from soak.store_errors import StoreError

BROWSER_WORKER_PREFIX = "browser-"
"""Begins the name of a worker whose participants have browsers."""
FORMAT_VERSION = 6

LATENCY_BUCKETS_SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip

LATENCY_SLOT_US = 250_000
"""Latencies are counted apart for each such time, so that those inside of faults can be told from those outside."""


class Open(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A session begins. It is written, and acknowledged by the ledger, before anything is sent."""

    number: int
    session: str
    store: str


class Lease(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The intent to send every message of this writer up to and including this seq."""

    session: int
    writer: WriterNumber
    upto: Seq


class ForgetIntent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The session is about to be erased."""

    session: int
    sent: int


class ForgetOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How erasing the session ended."""

    session: int
    outcome: OutcomeNumber
    sent: int
    ended: int


class SeenItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One element of a suspicious read; `raw` is kept only where it is not the message that was written."""

    session: str
    writer: int
    seq: int
    raw: bytes | None = None
    problem: str = ""


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A read by a participant that did not look right, with all that is needed to judge it.

    `acked` lists (writer, seq, sent, ended) of what the worker knew as acknowledged when the read was invoked:
    at least the last `last` of them (all that could be in the read), newest last. `acked_total` counts all.
    """

    session: int
    invoked: int
    returned: int
    last: int | None
    items: list[SeenItem]
    acked: list[tuple[int, int, int, int]]
    acked_total: int
    suspicion: str
    asked: tuple[WriterNumber, Seq] | None = None
    """It was a search for the words of this message, and `last` is how many were asked for; None: it was a read."""


class LatencyTally(msgspec.Struct, array_like=True):
    """Operations of one kind on one store that ended in one slot of time, since the last batch."""

    store: str
    operation: str
    slot: int
    """When they ended, in units of `LATENCY_SLOT_US`."""
    counts: Buckets = msgspec.field(default_factory=dict)
    """How long those took that were answered."""
    errors: Buckets = msgspec.field(default_factory=dict)
    """How long the others took to fail."""
    sum_seconds: float = 0.0
    max_seconds: float = 0.0
    """Of those that were answered."""

    def add(self, other: LatencyTally) -> None:
        for mine, theirs in ((self.counts, other.counts), (self.errors, other.errors)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count
        self.sum_seconds += other.sum_seconds
        self.max_seconds = max(self.max_seconds, other.max_seconds)


class Batch(msgspec.Struct, array_like=True):
    """All that a worker has to say since its last batch."""

    opens: list[Open] = []
    leases: list[Lease] = []
    attempts: list[Attempt] = []
    forget_intents: list[ForgetIntent] = []
    forget_outcomes: list[ForgetOutcome] = []
    closes: list[int] = []
    observations: list[Observation] = []
    latencies: list[LatencyTally] = []
    suppressed_observations: int = 0
    farewell: bool = False
    """The worker's last batch: it has drained."""
    errors: list[StoreError] = []
    """Exceptions that stores raised, one entry for each kind."""


class FaultPhase(msgspec.Struct, frozen=True, kw_only=True):
    """A fault window opens or closes. Written by whoever breaks or restarts servers."""

    fault: str
    """Identity of the window."""
    kind: str
    target: str
    """The server, by its kind: `redis`, `postgres`."""
    phase: str
    """`start`; `injected`, once it is in effect; `end`, once all is well again; or `failed`, telemetry says why."""
    at: int
    """Microseconds of CLOCK_MONOTONIC."""
    excuses: Excuse
    """What the contract lets it take. Whoever writes the record says so; there is no default."""
    promotes: Promotion
    """Whether a replica becomes the primary, and clients may go on reading from the old one; no default either."""
    serves: bool = False
    """The server goes on serving during it."""
    down: bool = False
    """The server does not answer from `injected` until it is healed."""
    planned: bool = True
    telemetry: dict[str, str] = {}
    parameters: dict[str, str] = {}
    """The values of the fault's parameters, as people write them."""
    host: str = ""
    """Whose CLOCK_MONOTONIC the time is of; empty: that of the ledger's reader."""
    boot: str = ""
    """Which boot of that host: the clock begins anew with each."""
    clock_offset_us: int = 0
    """The ledger's time less that host's, as it was measured."""
    clock_error_us: int | None = None
    """By how much that may be wrong; None: it could not be measured."""


class EndOfLoad(msgspec.Struct, frozen=True, kw_only=True):
    """No worker writes after this; the verifier sweeps everything once more and gives its verdict."""

    at: int
    """Microseconds of CLOCK_MONOTONIC on that host."""
    reason: str
    host: str = ""
    boot: str = ""
    """Which boot of that host: times of another one cannot be compared with its own. The journal fills these in."""
    clock_offset_us: int = 0
    clock_error_us: int | None = None
    """As in a fault's record."""


class VerifierBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """How far the verifier has come, for whoever writes. It is no record: it stands in a key that expires."""

    unread: int
    """Acknowledged messages that it has taken in and not read yet."""
    oldest_unread_seconds: float
    """How long the oldest of them has been waiting."""
    hold: bool = False
    """There are too many: nothing more is to be written until there are fewer."""
    stamp: int = 0
    """Another one each time: the same one again says that the verifier has not been heard of since."""


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What anyone who joins a run must know. Secrets are never in it: addresses come without passwords."""

    version: int
    run: str
    seed: int
    namespace: str
    stores: list[str]
    contracts: dict[str, Contract]
    started_wall_seconds: float
    recall_seconds: float = 45.0
    """How long after its end a session may be recalled by the load; the verifier retires it no sooner."""
    origins: dict[str, str] = {}
    """How the contract of each store was obtained: declared, by preset, derived from its server, the store's own."""
    configurations: dict[str, dict[str, str]] = {}
    """The effective configuration of each server under test when the run began."""
    nodes: dict[str, dict[str, dict[str, str]]] = {}
    """Where several nodes act as one server: by its name and their places, the same of each; empty: it was silent."""
    weaker_servers_allowed: bool = False
    """It was begun although a server as configured cannot keep what is promised."""
    waits_for_replicas: bool = False
    """Writes to a Redis wait for its replicas."""
    needs: dict[str, list[str]] = {}
    """The servers each store rests on, where it is more than the store says itself: those behind a service."""
    resting: list[str] = []
    """Servers under test that keep nothing themselves, but rest on others: nothing may be lost when they die."""


_encoder = msgspec.msgpack.Encoder()
_batch_decoder = msgspec.msgpack.Decoder(Batch)


class BadRecordError(ValueError):
    """A ledger record is cut, altered or of another version."""


def encode_batch(batch: Batch) -> bytes:
    return _encoder.encode(batch)


def seal(*marks: object) -> int:
    """Return a checksum of what stands around a record's contents."""
    return zlib.crc32("/".join(map(str, marks)).encode("utf-8", "surrogatepass"))


def decode_batch(blob: bytes, crc: int) -> Batch:
    if zlib.crc32(blob) != crc:
        raise BadRecordError("checksum does not fit")
    try:
        return _batch_decoder.decode(blob)
    except msgspec.MsgspecError as error:
        raise BadRecordError(str(error)) from error


__all__ = [
    "FORMAT_VERSION",
    "LATENCY_BUCKETS_SECONDS",
    "LATENCY_SLOT_US",
    "Attempt",
    "BadRecordError",
    "Batch",
    "EndOfLoad",
    "FaultPhase",
    "ForgetIntent",
    "ForgetOutcome",
    "LatencyTally",
    "Lease",
    "Observation",
    "Open",
    "RunHeader",
    "SeenItem",
    "StoreError",
    "VerifierBacklog",
    "decode_batch",
    "encode_batch",
]


# Which machine a time was measured on, and since which boot: only times of one boot can be compared as they are.


class Host(NamedTuple):
    """A machine and a boot of it. Containers on one machine have names of their own and share its boot."""

    name: str
    boot: str


def this_host() -> Host:
    return Host(socket.gethostname(), timeline())
