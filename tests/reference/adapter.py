"""Drives another checker through a history, and compares what it reports with what the reference demands and allows.

Implement `Judge` over the checker under test and pass it to `compare`:

    for seed in seeds:
        for disagreement in compare(correct(seed), MyJudge()):
            print(explain(disagreement))

`window` and `undecodable` are compared by session only; give them any message of that session. A leaked message is
named as it was written: by the session it belongs to.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Protocol

from tests.reference.clocks import Hosts
from tests.reference.findings import Finding, Judgement, Obligation, found
from tests.reference.history import (
    MILLISECOND,
    SECOND,
    VERIFIER,
    Event,
    FaultEvent,
    ForgetDelivered,
    ForgetSent,
    History,
    Item,
    Leased,
    MessageId,
    Micros,
    OutcomeDelivered,
    Read,
    ReadInvoked,
    ReadReturned,
    WriterClosed,
    events,
)
from tests.reference.judge import judge as reference_judge


class Judge(Protocol):
    """A checker under test."""

    def begin(self, history: History) -> None:
        """Take contract, settle time and sessions; what happens in the history comes as events."""

    def feed(self, at: Micros, event: Event) -> None:
        """Take what the verifier learns at that time: everything but what reads return."""

    def observe(self, read: Read) -> None:
        """Take what a read returned; it was invoked when `feed` had its `ReadInvoked`."""

    def found(self) -> set[tuple[str, MessageId]]:
        """Return everything reported so far, healed or not."""


class Way(enum.Enum):
    MISSED = "missed"
    FALSE_ALARM = "false alarm"


@dataclass(frozen=True)
class Disagreement:
    """One thing that had to be reported and was not, or was and must not be."""

    way: Way
    findings: Obligation
    """For what was missed: one of these had to be reported."""
    reported: frozenset[Finding]
    history: History
    judgement: Judgement


def drive(history: History, judge: Judge, hosts: Hosts | None = None) -> frozenset[Finding]:
    """Feed a whole history to a checker, as it was or as several hosts tell it, and return what it reports."""
    judge.begin(history if hosts is None else hosts.history)
    for at, known in events(history):
        event = known if hosts is None else hosts.told(known)
        if isinstance(event, ReadReturned):
            judge.observe(event.read)
        else:
            judge.feed(at, event)
    return frozenset(found(kind, MessageId(*message)) for kind, message in judge.found())


def compare(history: History, judge: Judge, hosts: Hosts | None = None) -> list[Disagreement]:
    """Return where a checker and the reference disagree; the reference knows the times as they were."""
    reported = drive(history, judge, hosts)
    judgement = reference_judge(history)
    is_correct = history.planted is None
    missed = [obligation for obligation in judgement.must if not obligation & reported]
    alarms = [frozenset({f}) for f in reported if not judgement.allows(f, store_is_correct=is_correct)]
    return [
        *(Disagreement(Way.MISSED, obligation, reported, history, judgement) for obligation in missed),
        *(Disagreement(Way.FALSE_ALARM, alarm, reported, history, judgement) for alarm in alarms),
    ]


def at_kind_level(disagreements: list[Disagreement]) -> list[Disagreement]:
    """Return those that remain if it does not matter which messages of a session a kind is reported of."""
    return [one for one in disagreements if not _is_agreed_kind(one)]


def _is_agreed_kind(disagreement: Disagreement) -> bool:
    judgement = disagreement.judgement
    allowed = {*judgement.may, *(finding for obligation in judgement.must for finding in obligation)}
    known = disagreement.reported if disagreement.way is Way.MISSED else allowed
    kinds = {(finding.kind, finding.message.session) for finding in known}
    return any((finding.kind, finding.message.session) in kinds for finding in disagreement.findings)


def shrink(history: History, judge: Callable[[], Judge], way: Way, kind: str) -> History:
    """Return a smaller history in which the checker is still wrong in this way about this kind.

    What is left out was never there, so only a disagreement that remains is kept, not the planted flaw's name.
    """

    def is_wrong(candidate: History) -> bool:
        return any(d.way is way and any(f.kind == kind for f in d.findings) for d in compare(candidate, judge()))

    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(history):
            if is_wrong(candidate):
                history, smaller = candidate, True
                break
    return history


def _smaller(history: History) -> Iterable[History]:
    """Yield histories with one thing less; of a correct store, nothing that explains an absence is left out."""
    for index in range(len(history.reads)):
        yield replace(history, reads=history.reads[:index] + history.reads[index + 1 :])
    if history.planted is not None:
        for index in range(len(history.faults)):
            yield replace(history, faults=history.faults[:index] + history.faults[index + 1 :])
        for index in range(len(history.forgets)):
            yield replace(history, forgets=history.forgets[:index] + history.forgets[index + 1 :])
    elif history.contract.ttl is not None or history.contract.retained is not None:
        return  # each message there decides how long others live
    for attempt in history.attempts:
        is_last = not any(a.id[:2] == attempt.id[:2] and a.id.seq > attempt.id.seq for a in history.attempts)
        if is_last:
            yield _without(history, attempt.id)


def _without(history: History, message: MessageId) -> History:
    """Leave out a message, and the windows that showed it, which would be too short without it."""
    reads = []
    for read in history.reads:
        left = tuple(item for item in read.items or () if not _is(item, message))
        if read.items is None or len(left) == len(read.items):
            reads.append(read)
        elif read.last is None:
            reads.append(replace(read, items=left))
    return replace(history, attempts=tuple(a for a in history.attempts if a.id != message), reads=tuple(reads))


def _is(item: object, message: MessageId) -> bool:
    return isinstance(item, Item) and item.id == message


# ---------------------------------------------------------------------------------------------------------------------
# For people


def explain(disagreement: Disagreement) -> str:
    """Return what is disagreed on, above the history as a table."""
    findings = " or ".join(sorted(map(str, disagreement.findings)))
    heading = (
        f"missed: {findings} had to be reported"
        if disagreement.way is Way.MISSED
        else f"false alarm: {findings} must not be reported"
    )
    lines = [
        heading,
        f"reported: {', '.join(sorted(map(str, disagreement.reported))) or 'nothing'}",
        *_judged(disagreement.judgement),
        timeline(disagreement.history),
    ]
    return "\n".join(lines)


def _judged(judgement: Judgement) -> Iterable[str]:
    yield f"reference: {judgement.verdict.value}"
    for obligation in sorted(judgement.must, key=lambda o: sorted(map(str, o))):
        yield f"  must: {' or '.join(sorted(map(str, obligation)))}"
    for finding, reasons in sorted(judgement.may.items()):
        yield f"  may:  {finding} ({', '.join(sorted(reasons))})"


def timeline(history: History) -> str:
    """Return a history as a table: time, session, what happened."""
    rows = [(a.sent, a.id.session, f"{_name(a.id)} sent") for a in history.attempts]
    rows += [
        (a.ended, a.id.session, f"{_name(a.id)} {a.outcome.value}{'' if a.delivered_at else ', never delivered'}")
        for a in history.attempts
        if a.ended is not None
    ]
    for at, event in events(history):
        row = _row(event)
        if row is not None:
            rows.append((at, *row))
    planted = f"planted: {history.planted or 'nothing'}, seed {history.seed}"
    heading = f"{planted}, settle {history.settle / SECOND:.3f} s\n{_contract(history)}"
    table = [_line(*row) for row in sorted(rows)]
    return "\n".join([heading, *table])


def _line(at: Micros, session: int, text: str) -> str:
    return f"{at / MILLISECOND:10.3f} ms  {f's{session}' if session else '--'}  {text}"


def _contract(history: History) -> str:
    strictest = type(history.contract)()
    names = [each.name for each in fields(history.contract)]
    weaker = {n: getattr(history.contract, n) for n in names if getattr(history.contract, n) != getattr(strictest, n)}
    return "contract: " + (", ".join(f"{name}={_value(value)}" for name, value in weaker.items()) or "strict")


def _value(value: object) -> str:
    return str(value.value) if isinstance(value, enum.Enum) else str(value)


def _row(event: Event) -> tuple[int, str] | None:  # noqa: PLR0911  one answer a line
    match event:
        case OutcomeDelivered(a):
            return a.id.session, f"  ledger: {_name(a.id)} {a.outcome.value}"
        case ForgetSent(f):
            return f.session, f"forget sent, {f.outcome.value} at {(f.ended or 0) / MILLISECOND:.3f}"
        case ForgetDelivered(f):
            return f.session, f"  ledger: forget {f.outcome.value}"
        case FaultEvent(phase, fault):
            return 0, f"fault ({fault.excuse.value}, {fault.target.value}) {phase.value}"
        case Leased(session, writer, up_to):
            return session, f"  ledger: writer {writer} leased up to {up_to}"
        case WriterClosed(session, writer):
            return session, f"  ledger: writer {writer} closed"
        case ReadInvoked():
            return None
        case ReadReturned(read):
            return read.session, _read_row(read)


def _read_row(read: Read) -> str:
    who = "verifier" if read.reader == VERIFIER else f"writer {read.reader}"
    what = "raised" if read.items is None else " ".join(map(_item, read.items)) or "(empty)"
    window = f" last {read.last}" if read.last is not None else ""
    took = (read.returned - read.invoked) / MILLISECOND
    return f"  {who} read {read.source.value}{window} ({took:.3f} ms): {what}"


def _item(item: object) -> str:
    if not isinstance(item, Item):
        return "?"
    return _name(item.id) + ("" if item.intact else "!")


def _name(message: MessageId) -> str:
    return f"{message.session}.{message.writer}.{message.seq}"
