"""The history of a session as operations in time: what was appended when, how that ended, and what reads returned.

It is put together from two sources. The verifier records the first sessions of each store as they go
(`verifier.history_sessions`); of every other session it keeps no history, but the evidence of a violation holds what
its verdict rests on: the book, with the times of all appends that were still young, and the reads.

What the contract allows is no anomaly: a loss that it tolerates is an append of unknown outcome, a read that may be
behind begins earlier by as much, and one that a fault may have kept behind begins before everything. Promises too
weak for a list that only grows leave a session out (`NotExpressibleError`). An element that nobody of the session has
appended, because it is another's or no message at all, is written as an append that failed: reading it is then a
dirty read (G1a). Without that, Elle would give up.

Where a time is not known any more the operation is made longer, never shorter: it is then concurrent with more, and a
checker can claim less. So a history is weaker than what happened, and never accuses where nothing was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from soak.checker.case import (
    Case,
    FullRead,
    Participation,
    SearchRead,
    SecondSearch,
    TailRead,
    judging_of,
    reads_of,
)
from soak.checker.contract import Contract, Duplicates, Order, Reads
from soak.checker.expected_session import ExpectedSession
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import MessageId, SavedRead, names_in
from soak.checker.second_look import times_of
from soak.verifier.recording import Recording

BEGINNING = 0
"""Stands for a moment before everything that is known of."""

END = 2**62
"""Stands for a moment after everything that is known of."""


class AppendOperation(NamedTuple):
    """One append; `ended` is None where nobody knows whether and when it was applied."""

    writer: int
    seq: int
    outcome: Outcome
    sent: int
    ended: int | None
    is_timed: bool
    """Its times are its own; otherwise they are the widest it can have had."""
    foreign: str = ""
    """The name of something that nobody of the session has appended, and that was read."""

    @property
    def element(self) -> str:
        return self.foreign or f"{self.writer}/{self.seq}"


class ReadOperation(NamedTuple):
    """One read of the whole session."""

    invoked: int
    returned: int
    elements: tuple[str, ...]


class SessionHistory(NamedTuple):
    """All operations on one session that are known."""

    session: str
    store: str
    clock_epsilon_us: int
    appends: list[AppendOperation]
    reads: list[ReadOperation]


class NotExpressibleError(ValueError):
    """What happened to the session cannot be said in lists that only grow; the text says why."""


def check_expressible(session: str, contract: Contract, *, is_forgotten: bool) -> None:
    """Raise where a checker of list-append histories would accuse a store that keeps its promises."""
    if is_forgotten:
        raise NotExpressibleError(f"{session} was forgotten, which a list that only grows cannot tell")
    if contract.ttl_seconds is not None or contract.retained_messages is not None or contract.eviction_allowed:
        raise NotExpressibleError(f"{session} may rightly lose old messages, which a list that only grows cannot tell")
    if contract.order is not Order.REALTIME:
        raise NotExpressibleError(f"{session} is promised order {contract.order.value}, and a list has one order")
    if contract.duplicates is Duplicates.AT_LEAST_ONCE:
        raise NotExpressibleError(f"{session} may hold a message twice (at_least_once), and a list may not")
    if contract.reads is Reads.EVENTUAL:
        raise NotExpressibleError(f"{session} may be read as it was at any time before (eventual), without a bound")


def of_cases(session: str, cases: list[Case]) -> SessionHistory:
    """Put the history of a session together from the evidence of its violations, the latest last."""
    reads: dict[tuple[int, int], ReadOperation] = {}
    attempts: dict[MessageId, Attempt] = {}
    for case in cases:
        check_expressible(session, case.rules.contract, is_forgotten=case.book.forgets is not None)
        attempts.update(times_of(case.book))
        if isinstance(case.basis, Participation):
            known = ((w, s, sent, ended) for w, s, sent, ended in case.basis.acked)
            attempts.update({(w, s): Attempt(0, w, s, int(Outcome.OK), sent, ended) for w, s, sent, ended in known})
        for read in _whole_reads(case):
            reads.setdefault((read.invoked, read.returned), read)
    appends = [append for case in cases[-1:] for append in _appends(case, cases, attempts)]
    rules = cases[0].rules
    judgings = [judging_of(case) for case in cases]
    shadowed = {
        one.invoked for one in reads.values() if any(j.is_shadowed(one.invoked, one.returned) for j in judgings)
    }
    behind = _begun_earlier(reads.values(), rules.contract, shadowed)
    return SessionHistory(
        session, cases[0].store, rules.clock_epsilon_us, appends + _foreign(appends, behind), list(behind)
    )


def _begun_earlier(reads: Iterable[ReadOperation], contract: Contract, shadowed: set[int]) -> list[ReadOperation]:
    """Let reads that may be behind by so much begin earlier by as much, and those in a fault's shadow at first."""
    behind_us = contract.staleness_us or 0
    return [
        read._replace(
            invoked=BEGINNING
            if read.invoked == BEGINNING or read.invoked in shadowed
            else max(1, read.invoked - behind_us)
        )
        for read in reads
    ]


def _foreign(appends: list[AppendOperation], reads: list[ReadOperation]) -> list[AppendOperation]:
    """Return a failed append for each element that was read and that nobody of the session has appended."""
    appended = {append.element for append in appends}
    shown = dict.fromkeys(element for read in reads for element in read.elements)
    return [
        AppendOperation(-1, 0, Outcome.FAILED, BEGINNING, END, is_timed=False, foreign=element)
        for element in shown
        if element not in appended
    ]


def _whole_reads(case: Case) -> Iterable[ReadOperation]:
    """Return the reads of all of the session in a case, beginning with what earlier ones had verified."""
    basis = case.basis
    suspicion = case.suspicion
    if isinstance(basis, FullRead) and suspicion is not None:
        if suspicion.before:
            yield _verified(ExpectedSession(case.session, case.store, order=suspicion.before), suspicion.invoked)
    elif case.book.order:
        # The book of a part is the one that a later read of all has filled.
        yield _verified(case.book, basis.read.invoked if isinstance(basis, FullRead) else END)
    if isinstance(basis, TailRead | SearchRead) or (isinstance(basis, Participation) and basis.last is not None):
        return  # it asked for a few only
    for _, read in [("", basis.read)] if isinstance(basis, SecondSearch) else reads_of(case):
        if not read.cut:
            yield ReadOperation(read.invoked, read.returned, tuple(names_in(read, case.session, case.run)))


def _verified(book: ExpectedSession, until: int) -> ReadOperation:
    """Return what had been verified by then: so the list stood at some moment before."""
    return ReadOperation(BEGINNING, until, tuple(f"{writer}/{seq}" for writer, seq in book.names_in_order()))


def _appends(last: Case, cases: list[Case], attempts: dict[MessageId, Attempt]) -> list[AppendOperation]:
    known = [_known_acked(case) for case in cases]
    appends = []
    shown = {name for case in cases for read in _whole_reads(case) for name in read.elements}
    for number, writer in enumerate(last.book.writers):
        seqs = {seq for seqs in (writer.acked, writer.unknown, writer.failed) for seq in seqs}
        seqs |= {seq for seq in range(1, writer.leased + 1) if f"{number}/{seq}" in shown}
        for seq in sorted(seqs):
            place = (number, seq)
            is_acked = seq in writer.acked and seq not in writer.unknown
            if seq in writer.failed:
                appends.append(AppendOperation(number, seq, Outcome.FAILED, BEGINNING, END, is_timed=False))
            elif not is_acked or all(seq in case.book.writers[number].excused for case in cases if _has(case, place)):
                # What may rightly be gone, by the contract, is as good as unknown.
                appends.append(_unknown(place, attempts.get(place)))
            elif place in attempts and attempts[place].outcome == Outcome.OK:
                one = attempts[place]
                appends.append(AppendOperation(number, seq, Outcome.OK, one.sent, one.ended, is_timed=True))
            else:
                acked_by = min((at for at, acked in known if place in acked), default=END)
                appends.append(AppendOperation(number, seq, Outcome.OK, BEGINNING, acked_by, is_timed=False))
    return appends


def _unknown(place: MessageId, attempt: Attempt | None) -> AppendOperation:
    sent = BEGINNING if attempt is None else attempt.sent
    return AppendOperation(*place, Outcome.UNKNOWN, sent, None, is_timed=attempt is not None)


def _has(case: Case, place: MessageId) -> bool:
    return place[0] < len(case.book.writers)


def _known_acked(case: Case) -> tuple[int, set[MessageId]]:
    """Return what was known as acknowledged, and at what moment, by the earliest read of a case that says so."""
    reads: list[SavedRead] = [read for _, read in reads_of(case)]
    first = min(reads, key=lambda read: read.invoked)
    return first.invoked, {(number, seq) for number, seqs in first.acked.items() for seq in seqs}


# -- from a recording --


def of_recording(recording: Recording) -> SessionHistory:
    """Return the history of a session that was recorded as it went."""
    session = recording.session
    check_expressible(session, recording.contract, is_forgotten=recording.is_forgotten)
    reads = [
        ReadOperation(read.invoked, read.returned, tuple(names_in(read, session, recording.run)))
        for read in recording.reads.values()
        if not read.cut
    ]
    reads = _begun_earlier(reads, recording.contract, recording.shadowed)
    appends = [_recorded(place, attempt, recording) for place, attempt in sorted(recording.attempts.items())]
    shown = {element for read in reads for element in read.elements}
    if any(f"{writer}/{seq}" in shown for writer, seq in recording.tolerated):
        raise NotExpressibleError(
            f"{session} has rightly lost what had been read, which a list that only grows cannot tell"
        )
    for writer, upto in sorted(recording.leased.items()):
        # Seen, intended, and of no known outcome: its worker died, or has not recorded it yet.
        unsaid = [(writer, seq) for seq in range(1, upto + 1) if (writer, seq) not in recording.attempts]
        appends += [_unknown(place, None) for place in unsaid if f"{place[0]}/{place[1]}" in shown]
    appends += _foreign(appends, reads)
    return SessionHistory(session, recording.store, recording.clock_epsilon_us, appends, reads)


def _recorded(place: MessageId, attempt: Attempt, recording: Recording) -> AppendOperation:
    if attempt.outcome == Outcome.UNKNOWN or place in recording.tolerated:
        return _unknown(place, attempt)
    return AppendOperation(*place, Outcome(attempt.outcome), attempt.sent, attempt.ended, is_timed=True)
