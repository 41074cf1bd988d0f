"""What a judgement comes to: each violation once, what is over or there again, and which read is needed next."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from soak.checker.expected_session import ExpectedSession, name_of
from soak.checker.incidents import Counted, Suspicion
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Message
from soak.checker.read import Finding, MessageId, Read
from soak.checker.second_look import Late, Lost, Seqs


class Wrong(NamedTuple):
    """One thing that is wrong: which message, where it belongs, what is wrong with it, where it stands in the read."""

    message: str
    place: MessageId | None
    detail: str
    at: int


class Verified(NamedTuple):
    """Acknowledgements that a read settled."""

    messages: int
    released: int
    """Rightly gone before anyone had looked."""
    surfaced: list[MessageId]
    """Writes without an acknowledgement that are there."""


class Suspected(NamedTuple):
    """A read lacks something."""

    suspicion: Suspicion


class Confirmed(NamedTuple):
    """Violations of one kind that were not reported before."""

    kind: Kind
    wrong: list[Wrong]
    suspicion: Suspicion | None


class Gone(NamedTuple):
    """Messages that are confirmed as gone, each with the fault that excuses it, if one does."""

    losses: list[Lost]
    """Tolerated ones, and those that were not reported before."""
    suspicion: Suspicion


class Tolerated(NamedTuple):
    """Reads that were late, and may have been; how late is measured all the same."""

    late: list[Late]
    is_shadowed: bool
    """They were reads of a replica in the shadow of a fault."""
    seconds: float = 0.0
    """How long after the read that lacked something another one showed it."""


class Healed(NamedTuple):
    """Violations that are over."""

    changes: list[tuple[Kind, str, MessageId | None]]


class Reopened(NamedTuple):
    """Violations that were over and are there again."""

    changes: list[tuple[Kind, str, MessageId | None]]


Event = Verified | Suspected | Confirmed | Gone | Tolerated | Healed | Reopened


class Observed(NamedTuple):
    """What a read comes to."""

    events: list[Event]
    before: bytes | None
    """The book as it was before the read was taken into it, packed; None: nothing is reported of it."""


class Want(enum.Enum):
    """A read that the judgement of a session waits for."""

    TAIL = "tail"
    """The end of the session: it was found right so far, and has grown."""
    FULL = "full"
    CONFIRM = "confirm"
    """A full read, and the primary's where reads may be behind it."""
    SEARCH = "search"
    """A search for what an earlier one lacked, and a full read behind it."""


class WantedRead(NamedTuple):
    """The next read that a session needs, and when."""

    want: Want
    at: int
    last: int | None = None
    """How many messages to ask for; None: all."""


NAME_CHARACTERS_MAX = 500
LOSSES = (Kind.LOST, Kind.ROLLED_BACK)
HEALED_BY_A_LATER_READ = frozenset({Kind.STALE, Kind.NON_MONOTONIC})
"""What is over as soon as it is known."""


def confirm(
    expected: ExpectedSession, findings: Sequence[Finding], events: list[Event], suspicion: Suspicion | None = None
) -> None:
    for kind in dict.fromkeys(finding.kind for finding in findings):
        new: list[Wrong] = []
        again: list[tuple[Kind, str, MessageId | None]] = []
        for one in findings:
            if one.kind is not kind:
                continue
            if _count(expected, kind, one.message, one.place):
                new.append(Wrong(one.message, one.place, one.detail, one.at))
            elif _reopen(expected, kind, one.message, one.place):
                again.append((kind, one.message, one.place))
        if new:
            events.append(Confirmed(kind, new, suspicion))
        if again:
            events.append(Reopened(again))


def report_losses(expected: ExpectedSession, losses: list[Lost], suspicion: Suspicion, events: list[Event]) -> None:
    broken: dict[Kind, list[MessageId]] = {}
    again: list[tuple[Kind, str, MessageId | None]] = []
    reported: list[Lost] = []
    for lost in losses:
        expected.writers[lost.place[0]].excuse(Intervals([lost.place[1], lost.place[1]]))
        if lost.excused_by is not None:
            reported.append(lost)
        elif _count(expected, lost.kind, "", lost.place):
            reported.append(lost)
            broken.setdefault(lost.kind, []).append(lost.place)
        elif _counted_in(expected).reopen(lost.kind, *lost.place):
            # It was counted before, had come back, and is gone again.
            again.append((lost.kind, name_of(expected, lost.place), lost.place))
    if reported:
        events.append(Gone(reported, suspicion))
    for kind, places in broken.items():
        wrong = [Wrong(name_of(expected, place), place, kind.sentence, -1) for place in places]
        events.append(Confirmed(kind, wrong, suspicion))
    if again:
        events.append(Reopened(again))


def report_late(
    expected: ExpectedSession, late: list[Late], suspicion: Suspicion | None, events: list[Event], seconds: float = 0.0
) -> None:
    """Report what a read lacked and a later one shows, where the contract promises better; the rest is measured."""
    for kind in dict.fromkeys(one.kind for one in late):
        new = [
            Wrong(name_of(expected, one.place), one.place, one.detail, -1)
            for one in late
            if one.kind is kind and one.is_broken_promise and _count(expected, kind, "", one.place)
        ]
        if new:
            events.append(Confirmed(kind, new, suspicion))
    if late:
        is_shadowed = suspicion is not None and suspicion.is_shadowed
        events.append(Tolerated(late, is_shadowed, seconds))


def missed_before(expected: ExpectedSession, known: list[Suspicion]) -> Seqs:
    """Return what had been missed before, or is counted as lost: that it appears again is part of that story."""
    missed: Seqs = {}
    for suspicion in known:
        for number, bounds in suspicion.absent.items():
            missed.setdefault(number, Intervals()).update(Intervals(bounds))
    lost = expected.counted.places if expected.counted is not None else {}
    for kind in LOSSES:
        for number, seqs in lost.get(kind, {}).items():
            missed.setdefault(number, Intervals()).update(seqs)
    return missed


def heal_after(expected: ExpectedSession, reads: Sequence[Read], events: list[Event], *, is_clean: bool) -> None:
    """Notice what a full read, with the primary's where that was asked, shows to be over."""
    counted = expected.counted
    if counted is None:
        return
    changes: list[tuple[Kind, str, MessageId | None]] = []
    for kind in LOSSES:
        for number, places in counted.open_places(kind).items():
            back = places.both(expected.writers[number].standing)
            if back:
                writer = expected.writers[number]
                writer.excused = writer.excused.minus(back)
                counted.heal(kind, number, back)
                changes += [(kind, name_of(expected, (number, seq)), (number, seq)) for seq in back]
    if changes:
        events.append(Healed(changes))
    shown = {(item.writer, item.seq) for read in reads for item in read.items if isinstance(item, Message)}
    heal(expected, Kind.RESURRECTED, lambda place: place not in shown, events)
    if is_clean and expected.closed:
        # Nobody reads the end of it any more, which would show that it is right again.
        heal(expected, Kind.WINDOW, lambda _: True, events)
    name = unreadable_name(expected)
    if counted.is_open_name(Kind.UNDECODABLE, name):
        counted.heal_name(Kind.UNDECODABLE, name)
        events.append(Healed([(Kind.UNDECODABLE, name, None)]))


def heal(expected: ExpectedSession, kind: Kind, is_over: Callable[[MessageId], bool], events: list[Event]) -> None:
    counted = expected.counted
    if counted is None:
        return
    places = counted.open_places(kind)
    over = [(number, seq) for number, seqs in places.items() for seq in seqs if is_over((number, seq))]
    for number, seq in over:
        counted.heal(kind, number, Intervals([seq, seq]))
    if over:
        events.append(Healed([(kind, name_of(expected, place), place) for place in over]))


def _reopen(expected: ExpectedSession, kind: Kind, name: str, place: MessageId | None) -> bool:
    counted = _counted_in(expected)
    return counted.reopen(kind, *place) if place is not None else counted.reopen_name(kind, _writable(name))


def _count(expected: ExpectedSession, kind: Kind, name: str, place: MessageId | None) -> bool:
    """Count a violation once; returns whether it is new."""
    counted = _counted_in(expected)
    return counted.add_place(kind, *place) if place is not None else counted.add_name(kind, _writable(name))


def _counted_in(expected: ExpectedSession) -> Counted:
    if expected.counted is None:
        expected.counted = Counted()
    return expected.counted


def _writable(name: str) -> str:
    """Return a name that can be saved: of bounded length, half characters escaped."""
    return name[:NAME_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()


def unreadable_name(expected: ExpectedSession) -> str:
    """Name what is wrong with a session whose reads raise: it is no single message."""
    return f"{expected.session}/*"
