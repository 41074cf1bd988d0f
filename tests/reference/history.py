"""A complete history of one or two sessions on one server: what happened, and what the verifier learns of it, when.

Plain values, independent of `soak.checker`. All times are integer microseconds, of one clock unless epsilon says more.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

Micros = int
SECOND: Micros = 1_000_000
MILLISECOND: Micros = 1_000

VERIFIER = 0
"""The reader that is no participant; writers count from 1."""


class MessageId(NamedTuple):
    """One message; as part of a finding, `writer` 0 stands for the session as a whole."""

    session: int
    writer: int
    seq: int

    def __str__(self) -> str:
        return f"s{self.session}/{self.writer}/{self.seq}"


class Outcome(enum.Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Order(enum.Enum):
    REALTIME = "realtime"
    PER_WRITER = "per_writer"
    NONE = "none"


class Expiry(enum.Enum):
    SLIDING = "sliding"
    """The time to live counts from the last append of the session."""
    ABSOLUTE = "absolute"
    """It counts from the first append."""


class Excuse(enum.Enum):
    """What a fault can excuse: which clause of the durability promise applies to it."""

    NOTHING = "nothing"
    CLEAN = "clean"
    CRASH = "crash"
    POWER = "power"
    FAILOVER = "failover"


class Source(enum.Enum):
    PRIMARY = "primary"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What the store promises; the defaults are the strictest."""

    crash_loss: Micros | None = 0
    """Acknowledged tail that may vanish in a crash; None: anything may (a cache)."""
    power_loss: Micros | None = 0
    failover_loss: Micros | None = 0
    order: Order = Order.REALTIME
    staleness: Micros | None = 0
    """How far a read may lag: 0 is read-your-writes, None is eventual."""
    at_least_once: bool = False
    ttl: Micros | None = None
    expiry: Expiry = Expiry.SLIDING
    retained: int | None = None
    eviction: bool = False
    strict_replica: bool = False

    def loss(self, excuse: Excuse) -> Micros | None:
        """Return how much acknowledged tail such a fault may take; None: anything."""
        if excuse is Excuse.CRASH:
            return self.crash_loss
        if excuse is Excuse.POWER:
            return self.power_loss
        if excuse is Excuse.CLEAN:
            return None if self.crash_loss is None else 0  # a cache keeps nothing over a restart
        return self.failover_loss if excuse is Excuse.FAILOVER else 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to append; `delivered_at` is when its outcome reaches the verifier, None: never."""

    id: MessageId
    sent: Micros
    ended: Micros | None
    outcome: Outcome
    delivered_at: Micros | None


@dataclass(frozen=True, slots=True)
class Forget:
    """One try to delete all of a session; the verifier learns of the intent when it is sent."""

    session: int
    sent: Micros
    ended: Micros | None
    outcome: Outcome
    delivered_at: Micros | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault window: announced at `started`, in effect at `injected`, the server has recovered at `ended`."""

    excuse: Excuse
    started: Micros
    injected: Micros
    ended: Micros
    target: Source = Source.PRIMARY
    caught_up: Micros | None = None
    """When the replica has caught up again; None: not within the history."""
    leaves_old: bool = False
    """The primary is replaced by another node, and clients may stay with the old one until it has ended."""

    @property
    def survived_until(self) -> Micros:
        """Up to when what was applied, and is still there, has survived it [R7]."""
        return self.started if self.leaves_old else self.injected


class Item(NamedTuple):
    """One element of a read: a message by its name, whichever session it belongs to."""

    id: MessageId
    intact: bool = True


class Unreadable(NamedTuple):
    """One element of a read that is no message."""

    mark: str


Element = Item | Unreadable


@dataclass(frozen=True, slots=True)
class Read:
    """One read: by the verifier (full, `last` is None) or by a participant (of the last so many)."""

    session: int
    reader: int
    source: Source
    invoked: Micros
    returned: Micros
    items: tuple[Element, ...] | None
    """None: the read raised an error."""
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that happened; reads and attempts are in order of their beginning."""

    contract: Contract
    settle: Micros
    attempts: tuple[Attempt, ...] = ()
    forgets: tuple[Forget, ...] = ()
    reads: tuple[Read, ...] = ()
    faults: tuple[Fault, ...] = ()
    recovery_max: Micros = 60 * SECOND
    lease_block: int = 10
    """Intents are leased in blocks of this many."""
    sessions: tuple[int, ...] = (1,)
    writers: tuple[tuple[int, int], ...] = ()
    """(session, writer) of those that open without ever sending; others are known by their attempts."""
    planted: str | None = None
    """The planted flaw; None: the store kept its contract."""
    took_effect: bool = False
    """Whether some read differs from what the same store without the flaw would have returned."""
    seed: int | None = None
    clock_epsilon: Micros = 0
    """By how much the clocks of two hosts may be apart at most: of workers, of the verifier, of who breaks servers."""


# ---------------------------------------------------------------------------------------------------------------------
# The same history as events in the order in which the verifier learns them


@dataclass(frozen=True, slots=True)
class Leased:
    """The intent to send all seqs up to `up_to` was recorded."""

    session: int
    writer: int
    up_to: int


@dataclass(frozen=True, slots=True)
class OutcomeDelivered:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ForgetSent:
    forget: Forget


@dataclass(frozen=True, slots=True)
class ForgetDelivered:
    forget: Forget


class FaultPhase(enum.Enum):
    STARTED = "started"
    INJECTED = "injected"
    ENDED = "ended"
    CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class FaultEvent:
    phase: FaultPhase
    fault: Fault


@dataclass(frozen=True, slots=True)
class WriterClosed:
    """All that this writer will ever send was sent, and every outcome that arrives has arrived."""

    session: int
    writer: int


@dataclass(frozen=True, slots=True)
class ReadInvoked:
    """A read begins; what it returns comes with `ReadReturned`."""

    read: Read


@dataclass(frozen=True, slots=True)
class ReadReturned:
    read: Read


Event = (
    Leased | OutcomeDelivered | ForgetSent | ForgetDelivered | FaultEvent | WriterClosed | ReadInvoked | ReadReturned
)

# At one and the same time: what is learned comes before what is asked, an answer before the next question.
_RANK: dict[type[Event], int] = {
    Leased: 0,
    ForgetSent: 1,
    FaultEvent: 2,
    OutcomeDelivered: 3,
    ForgetDelivered: 4,
    ReadReturned: 5,
    WriterClosed: 6,
    ReadInvoked: 7,
}


def events(history: History) -> Iterator[tuple[Micros, Event]]:
    """Yield what the verifier learns and reads, in order of time."""
    found = [*_ledger_events(history), *_fault_events(history)]
    for read in history.reads:
        found.append((read.invoked, ReadInvoked(read)))
        found.append((read.returned, ReadReturned(read)))
    yield from sorted(found, key=lambda pair: (pair[0], _RANK[type(pair[1])]))


def lease_of(history: History, session: int, writer: int) -> int:
    """Return up to which seq the writer's intents were recorded at the end."""
    seqs = [a.id.seq for a in history.attempts if (a.id.session, a.id.writer) == (session, writer)]
    if not seqs and (session, writer) not in history.writers:
        return 0
    blocks = -(-max(seqs, default=1) // history.lease_block)
    return blocks * history.lease_block


def _ledger_events(history: History) -> Iterator[tuple[Micros, Event]]:
    leased: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], Micros] = dict.fromkeys(history.writers, 0)
    for session, writer in history.writers:
        leased[session, writer] = history.lease_block
        yield 0, Leased(session, writer, history.lease_block)
    for attempt in history.attempts:
        writer_key = (attempt.id.session, attempt.id.writer)
        if attempt.id.seq > leased.get(writer_key, 0):
            leased[writer_key] = -(-attempt.id.seq // history.lease_block) * history.lease_block
            yield attempt.sent, Leased(*writer_key, leased[writer_key])
        if attempt.delivered_at is not None:
            yield attempt.delivered_at, OutcomeDelivered(attempt)
        done = max(attempt.sent, attempt.ended or 0, attempt.delivered_at or 0)
        last[writer_key] = max(last.get(writer_key, 0), done)
    for forget in history.forgets:
        yield forget.sent, ForgetSent(forget)
        if forget.delivered_at is not None:
            yield forget.delivered_at, ForgetDelivered(forget)
    for (session, writer), at in last.items():
        yield at, WriterClosed(session, writer)


def _fault_events(history: History) -> Iterator[tuple[Micros, Event]]:
    for fault in history.faults:
        yield fault.started, FaultEvent(FaultPhase.STARTED, fault)
        yield fault.injected, FaultEvent(FaultPhase.INJECTED, fault)
        yield fault.ended, FaultEvent(FaultPhase.ENDED, fault)
        if fault.caught_up is not None:
            yield fault.caught_up, FaultEvent(FaultPhase.CAUGHT_UP, fault)
