"""The real checker behind the interface of the reference judge: the same histories, the same questions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import msgspec

from soak.checker import contract as ours
from soak.checker.contract import Contract
from soak.checker.events import Confirmed, Observed
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import Excuse, FaultHistory, FaultWindow, Promotion
from soak.checker.intervals import Intervals
from soak.checker.message import Garbled, Stored
from soak.checker.outcome import Attempt, Closed, ForgetBegun, ForgetEnded
from soak.checker.outcome import Leased as LeasedTo
from soak.checker.outcome import Outcome as OutcomeNumber
from soak.checker.read import Read as OurRead
from soak.checker.read import Rules
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.text import MessageGenerator
from tests.reference.adapter import drive
from tests.reference.history import (
    VERIFIER,
    Event,
    Expiry,
    FaultEvent,
    FaultPhase,
    ForgetDelivered,
    ForgetSent,
    History,
    Item,
    Leased,
    MessageId,
    Micros,
    Order,
    Outcome,
    OutcomeDelivered,
    Read,
    ReadInvoked,
    Source,
    WriterClosed,
)
from tests.reference.history import Contract as ReferenceContract

AUTHOR = MessageGenerator("r1", 7)
STORE, SERVERS = "store", ("primary", "replica")
OUTCOMES = {Outcome.OK: OutcomeNumber.OK, Outcome.FAILED: OutcomeNumber.FAILED, Outcome.UNKNOWN: OutcomeNumber.UNKNOWN}


def contract_of(given: ReferenceContract) -> Contract:
    """Return the same promises in our words."""

    def seconds(micros: int | None) -> float | None:
        return None if micros is None else micros / 1e6

    reads = ours.Reads.READ_YOUR_WRITES
    if given.staleness is None:
        reads = ours.Reads.EVENTUAL
    elif given.staleness:
        reads = ours.Reads.BOUNDED_STALENESS
    return Contract(
        crash_loss_seconds=seconds(given.crash_loss),
        power_loss_seconds=seconds(given.power_loss),
        failover_loss_seconds=seconds(given.failover_loss),
        order={
            Order.REALTIME: ours.Order.REALTIME,
            Order.PER_WRITER: ours.Order.PER_WRITER,
            Order.NONE: ours.Order.NONE,
        }[given.order],
        reads=reads,
        staleness_seconds=(given.staleness or 0) / 1e6,
        replica_reads=ours.ReplicaReads.STRICT if given.strict_replica else ours.ReplicaReads.TOLERANT,
        duplicates=ours.Duplicates.AT_LEAST_ONCE if given.at_least_once else ours.Duplicates.EXACTLY_ONCE,
        ttl_seconds=seconds(given.ttl),
        expiry=ours.Expiry.SLIDING if given.expiry is Expiry.SLIDING else ours.Expiry.ABSOLUTE,
        retained_messages=given.retained,
        eviction_allowed=given.eviction,
    )


class CheckerJudge:
    """Drives a `SessionChecker` for each session, as the verifier does."""

    def begin(self, history: History) -> None:
        self._history = history
        self._faults = FaultHistory({STORE: SERVERS}, catch_up_us=history.recovery_max)
        self._has_replica = history.contract.staleness != 0
        self._judging = StoreJudging(
            rules=Rules(
                contract=contract_of(history.contract), ttl_epsilon_us=0, clock_epsilon_us=history.clock_epsilon
            ),
            author=AUTHOR,
            faults=self._faults,
            targets=SERVERS,
            settle_us=history.settle,
            asks_primary=self._has_replica,
            reads_replica=self._has_replica,
        )
        self._checkers = {
            number: SessionChecker(self._judging, ExpectedSession(name_of(number), STORE))
            for number in history.sessions
        }
        self._acked: dict[int, dict[int, Intervals]] = {}
        self._seen: dict[int, list[Read]] = defaultdict(list)
        """What participants saw, waiting for a full read that came after it."""
        self._waiting: dict[int, OurRead] = {}
        """A read of the replica that would confirm a loss, until the primary is asked."""
        self._open_writers = {
            session: {a.id.writer for a in history.attempts if a.id.session == session} for session in history.sessions
        }
        self._answered: dict[int, int] = dict.fromkeys(history.sessions, 0)
        self._found: set[tuple[str, MessageId]] = set()
        self._made: set[int] = set()
        self._last: dict[int, OurRead] = {}
        self._told_of_missing: set[int] = set()
        """Sessions in which an outcome of something that is missing came after the last read."""

    def found(self) -> set[tuple[str, MessageId]]:
        """Return what was reported; what an outcome that came last says of earlier reads is told by the next one."""
        for session, checker in self._checkers.items():
            self._conclude_waiting(session, None)
            last = self._last.get(session)
            is_news = checker.book.is_news_pending or session in self._told_of_missing
            if is_news and last is not None:
                read = msgspec.structs.replace(last, invoked=last.returned + 1, returned=last.returned + 2)
                self._take(session, checker.observe(read))
        return self._found

    # -- what the verifier learns --

    def feed(self, at: Micros, event: Event) -> None:  # noqa: ARG002  each event has its own times
        if isinstance(event, Leased):
            self._checkers[event.session].apply(LeasedTo(event.writer, event.up_to))
        elif isinstance(event, OutcomeDelivered):
            one = event.attempt
            outcome = int(OUTCOMES[one.outcome])
            attempt = Attempt(one.id.session, one.id.writer, one.id.seq, outcome, one.sent, one.ended or one.sent)
            checker = self._checkers[one.id.session]
            checker.apply(attempt)
            suspicions = checker.book.suspicions or ()
            if any(one.id.seq in Intervals(known.absent.get(one.id.writer, [])) for known in suspicions):
                self._told_of_missing.add(one.id.session)
        elif isinstance(event, ForgetSent):
            self._checkers[event.forget.session].apply(ForgetBegun(event.forget.sent))
        elif isinstance(event, ForgetDelivered):
            forget = event.forget
            ended = ForgetEnded(OUTCOMES[forget.outcome], forget.sent, forget.ended or forget.sent)
            self._checkers[forget.session].apply(ended)
        elif isinstance(event, FaultEvent):
            self._take_fault(event)
        elif isinstance(event, WriterClosed):
            self._close(event)
        elif isinstance(event, ReadInvoked) and event.read.reader == VERIFIER:
            self._acked[id(event.read)] = self._checkers[event.read.session].book.acked_now()

    def _close(self, event: WriterClosed) -> None:
        self._open_writers[event.session].discard(event.writer)
        if not self._open_writers[event.session]:
            attempts = [one for one in self._history.attempts if one.id.session == event.session]
            is_certain = all(one.delivered_at is not None for one in attempts)
            self._checkers[event.session].apply(Closed(is_certain=is_certain))

    def _take_fault(self, event: FaultEvent) -> None:
        fault, name = event.fault, f"f{self._history.faults.index(event.fault)}"
        if event.phase is FaultPhase.STARTED:
            window = FaultWindow(
                fault=name,
                kind="partial_partition" if fault.leaves_old else fault.excuse.value,
                target=fault.target.value,
                excuses=Excuse(fault.excuse.value),
                promotes=Promotion.BESIDE_THE_OLD if fault.leaves_old else Promotion.NONE,
                down=not fault.leaves_old,
                keeps_data=fault.target is Source.PRIMARY,
                started=fault.started,
            )
            self._faults.begin(window)
            self._doubt(window)
        elif event.phase is FaultPhase.INJECTED:
            self._faults.windows[name].injected = fault.injected
        elif event.phase is FaultPhase.ENDED:
            window = self._faults.windows[name]
            window.ended = fault.ended
            self._doubt(window)
        else:
            self._faults.windows[name].caught_up = fault.caught_up

    def _doubt(self, window: FaultWindow) -> None:
        for checker in self._checkers.values():
            checker.doubt(window)

    # -- what reads return --

    def observe(self, read: Read) -> None:
        if read.reader != VERIFIER:
            if read.items is not None:
                self._seen[read.session].append(read)
            return
        checker = self._checkers[read.session]
        if read.items is None:
            others = max((at for number, at in self._answered.items() if number != read.session), default=0)
            failed = checker.observe_failure(read.invoked, read.returned, "raised", others_answered=others)
            self._take(read.session, failed)
            return
        self._answered[read.session] = read.returned
        ours_read = self._read(read, self._acked.pop(id(read)))
        if not self._has_replica:
            self._observe(read.session, ours_read)
        elif read.source is Source.REPLICA:
            self._conclude_waiting(read.session, None)
            if checker.needs_primary(ours_read):
                self._waiting[read.session] = ours_read
            else:
                self._observe(read.session, ours_read)
        elif read.session in self._waiting:
            self._made.add(id(read))
            self._conclude_waiting(read.session, ours_read)

    def was_made(self, read: Read) -> bool:
        """Whether this read of the verifier is one that it makes by itself."""
        return read.source is Source.REPLICA or id(read) in self._made

    def _conclude_waiting(self, session: int, primary: OurRead | None) -> None:
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            self._observe(session, waiting, primary)

    def _observe(self, session: int, read: OurRead, primary: OurRead | None = None) -> None:
        checker = self._checkers[session]
        self._last[session] = read
        self._told_of_missing.discard(session)
        self._take(session, checker.observe(read, primary))
        epsilon = self._history.clock_epsilon
        for seen in [one for one in self._seen[session] if one.returned + epsilon <= read.invoked]:
            self._seen[session].remove(seen)
            acked = [
                (one.id.writer, one.id.seq, one.sent, one.ended)
                for one in sorted(self._history.attempts, key=lambda one: one.ended or 0)
                if one.id.session == session
                and one.outcome is Outcome.OK
                and one.ended is not None
                # Its own, too: what it had been told was placed by what was known of its clock then.
                and one.ended + epsilon < seen.invoked
            ]
            self._take(session, checker.observe_participant(self._read(seen, {}), seen.last, acked))
        self._sweep()

    def _sweep(self) -> None:
        """Mark the faults after which every session has been read: with no read that may still be behind."""
        behind = (self._judging.rules.contract.staleness_us or 0) + self._history.clock_epsilon
        for window in self._faults.values():
            after = (window.ended or 0) + behind
            is_read = all(one.book.last_whole > after for one in self._checkers.values())
            last = min(one.book.last_whole for one in self._checkers.values())
            is_caught_up = not self._has_replica or not self._faults.casts_shadow(SERVERS, last, last)
            if window.ended is not None and is_read and is_caught_up and STORE not in window.swept:
                window.swept.append(STORE)

    def _read(self, read: Read, acked: dict[int, Intervals]) -> OurRead:
        items = [stored_of(item) for item in read.items or ()]
        return OurRead(invoked=read.invoked, returned=read.returned, acked=acked, items=items)

    def _take(self, session: int, observed: Observed) -> None:
        for event in observed.events:
            if isinstance(event, Confirmed):
                for wrong in event.wrong:
                    self._found.add((event.kind.value, id_of(session, wrong.message, wrong.place)))


def name_of(session: int) -> str:
    return f"s{session}-short"


def stored_of(item: object) -> Stored:
    if not isinstance(item, Item):
        return Garbled(repr(item).encode(), "no message")
    message = AUTHOR.write(name_of(item.id.session), item.id.writer, item.id.seq)
    return message if item.intact else msgspec.structs.replace(message, content=message.content + " altered")


def id_of(session: int, message: str, place: tuple[int, int] | None) -> MessageId:
    """Return the message of a finding: what is no message stands for the session it was read in."""
    if place is not None:
        return MessageId(session, *place)
    name = message.partition(":")[2] if message.startswith(f"{AUTHOR.run}:") else message
    belongs_to, _, rest = name.partition("/")
    writer, _, seq = rest.partition("/")
    if not seq:
        return MessageId(session, 0, 0)
    return MessageId(int(belongs_to[1:].partition("-")[0]), int(writer), int(seq))


def as_read(history: History) -> History:
    """Return a history without the reads that the verifier would not have made: a primary it had no need to ask."""
    if history.contract.staleness == 0:
        return history
    judge = CheckerJudge()
    drive(history, judge)
    reads = tuple(one for one in history.reads if one.reader != VERIFIER or judge.was_made(one))
    return replace(history, reads=reads)
