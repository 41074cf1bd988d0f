"""The evidence of a violation: the session's history up to a read, that read, and the verdict.

The history is the book: what the ledger said and what earlier reads had shown, as the checker keeps it. `derive` hands
the read to the checker once more, with no server about, and gets the verdict again.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import msgspec

from soak.checker.events import Confirmed, Observed
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import CATCH_UP_US, FaultHistory, FaultWindow
from soak.checker.incidents import Missed, Suspicion
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.read import MessageId, Rules, SavedRead, count_of, restore
from soak.checker.session import SessionChecker, StoreJudging, packed, unpacked
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator


class FullRead(msgspec.Struct, frozen=True, kw_only=True, tag="full read"):
    """A read of the whole session, and of its primary where that was asked; or one that raised."""

    read: SavedRead
    primary: SavedRead | None = None
    error: str = ""
    """It raised this, as others before it; others were answered at `others_answered`."""
    others_answered: int = 0


class TailRead(msgspec.Struct, frozen=True, kw_only=True, tag="tail read"):
    """A read of the last so many, held against the whole order that the book knows."""

    read: SavedRead
    last: int


class Participation(msgspec.Struct, frozen=True, kw_only=True, tag="participation"):
    """A read by a participant of the load, held against the whole order that the book knows."""

    read: SavedRead
    last: int | None
    acked: list[tuple[int, int, int, int]]


class SearchRead(msgspec.Struct, frozen=True, kw_only=True, tag="search"):
    """A search for the words of one message, by the verifier or by a participant: what stands in its answer."""

    read: SavedRead
    asked: MessageId
    limit: int


class SecondSearch(msgspec.Struct, frozen=True, kw_only=True, tag="second search"):
    """A search that lacked the message whose words were asked for, a later one, and a whole read after that."""

    missed: Missed
    """It holds the first one."""
    search: SavedRead
    limit: int
    read: SavedRead


Basis = FullRead | TailRead | Participation | SearchRead | SecondSearch


class FoundViolations(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict: which violations were found, of one kind, by one judgement."""

    kind: Kind
    detail: str
    """Of the first of them, word for word."""
    first: str
    places: dict[int, Intervals] = {}
    names: list[str] = []
    """Those that are no messages of the session."""

    def messages(self, session: str) -> set[str]:
        placed = {f"{session}/{number}/{seq}" for number, seqs in self.places.items() for seq in seqs}
        return placed | set(self.names)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one session, and the verdict on it."""

    run: str
    seed: str | int
    """Digits; a number in the evidence of older soaks, which not every reader of JSON can hold."""
    store: str
    session: str
    rules: Rules
    settle_us: int = 0
    asks_primary: bool = False
    reads_replica: bool = False
    book: ExpectedSession
    """As the ledger and earlier reads had filled it, before the read of this case was taken into it."""
    basis: Basis
    suspicion: Suspicion | None = None
    """What an earlier read had lacked and this one decides; it is in the book, too."""
    faults: list[FaultWindow] = []
    """Fault windows of the servers that the store depends on."""
    targets: dict[str, list[str]] = {}
    """Which servers each store depends on."""
    catch_up_us: int = CATCH_UP_US
    """How long a replica may take to catch up after a fault."""
    sampled: dict[str, int] = {}
    """When each server had last been asked whether it is still the one it was."""
    samples: list[ServerSample] = []
    """What those servers said of themselves around it."""
    found: FoundViolations


TEXT_CHARACTERS_MAX = 500
MESSAGES_MAX = 10_000_000
"""Of one session; a number beyond that is damage."""


def writable(text: str) -> str:
    """Return any text as one that can be written down: of bounded length, half characters escaped."""
    return text[:TEXT_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()


class Derived(NamedTuple):
    """A violation as a case gives it."""

    kind: Kind
    message: str
    detail: str


class CannotDeriveError(ValueError):
    """The case does not hold all that the verdict rested on."""


def derive(case: Case) -> list[Derived]:
    """Reach the verdict of a case again: every violation that its read shows."""
    _check_whole(case)
    return [
        Derived(event.kind, writable(wrong.message), writable(wrong.detail))
        for event in _observe_again(case).events
        if isinstance(event, Confirmed)
        for wrong in event.wrong
    ]


def _observe_again(case: Case) -> Observed:
    author, basis = MessageGenerator(case.run, int(case.seed)), case.basis
    checker = SessionChecker(judging_of(case), unpacked(packed(case.book)))
    read = restore(basis.read, case.session, author)
    if isinstance(basis, FullRead):
        if basis.error:
            others = basis.others_answered
            return checker.observe_failure(read.invoked, read.returned, basis.error, others_answered=others)
        return checker.observe(read, None if basis.primary is None else restore(basis.primary, case.session, author))
    if isinstance(basis, TailRead):
        return checker.observe_tail_by_full(read, basis.last)
    if isinstance(basis, Participation):
        return checker.observe_participant(read, basis.last, basis.acked)
    if isinstance(basis, SearchRead):
        return checker.observe_search(read, basis.asked, basis.limit)
    search = restore(basis.search, case.session, author)
    return checker.observe_search_again(basis.missed, search, basis.limit, read)[1]


def judging_of(case: Case) -> StoreJudging:
    """Return what the session of a case was judged by, with the faults that were known by then."""
    faults = FaultHistory(case.targets, catch_up_us=case.catch_up_us)
    for window in case.faults:
        faults.begin(msgspec.structs.replace(window))
    for target, asked in case.sampled.items():
        faults.note_sample(target, asked)
    return StoreJudging(
        rules=case.rules,
        author=MessageGenerator(case.run, int(case.seed)),
        faults=faults,
        targets=case.targets.get(case.store, []),
        settle_us=case.settle_us,
        asks_primary=case.asks_primary,
        reads_replica=case.reads_replica,
    )


def _check_whole(case: Case) -> None:
    """Make sure that all of the reads is there, and that the numbers can be what they say they are."""
    for name, kept in reads_of(case):
        if kept.cut:
            raise CannotDeriveError(f"its {name} was too large to be kept whole: {kept.cut}")
        if count_of(kept) != kept.count:
            raise CannotDeriveError(f"its {name} is damaged: it does not hold the {kept.count} items that it counts")
    order = array("I", case.book.order)
    if sum(order[2::3]) - sum(order[1::3]) + len(order) // 3 != case.book.length:
        raise CannotDeriveError("its book is damaged: the order in it is not as long as it says")
    sets = [seqs for _, kept in reads_of(case) for seqs in kept.acked.values()] + list(case.found.places.values())
    for suspicion in (*(case.book.suspicions or ()), *([case.suspicion] if case.suspicion else ())):
        sets += [Intervals(bounds) for bounds in suspicion.absent.values()]
    if any(len(seqs) > MESSAGES_MAX for seqs in sets):
        raise CannotDeriveError("it is damaged: no session has so many messages")


class Replay(NamedTuple):
    """How a verdict that was reached again compares with the one on record."""

    derived: list[Derived]
    missing: list[str]
    """Violations on record that the case does not give."""
    other_detail: str
    """What the case says is wrong with the first of them, where that is not what the record says."""

    @property
    def is_same(self) -> bool:
        return not self.missing and not self.other_detail


def replay(case: Case) -> Replay:
    """Reach the verdict again, and hold it against the one on record."""
    found = case.found
    derived = derive(case)
    of_kind = {one.message: one.detail for one in derived if one.kind is found.kind}
    missing = sorted(found.messages(case.session) - set(of_kind))
    detail = of_kind.get(found.first, found.detail)
    return Replay(derived, missing, detail if detail != found.detail else "")


def reads_of(case: Case) -> list[tuple[str, SavedRead]]:
    """Return the reads of a case with what each is, in the order in which they were made."""
    basis = case.basis
    if isinstance(basis, SecondSearch):
        return [("first search", basis.missed.answer), ("second search", basis.search), ("whole read", basis.read)]
    if isinstance(basis, FullRead):
        suspicion = case.suspicion
        first = [("first read without it", suspicion.shown)] if suspicion is not None and suspicion.shown else []
        last = [("read of the primary", basis.primary)] if basis.primary is not None else []
        return [*first, ("second read" if suspicion is not None else "whole read", basis.read), *last]
    name = {TailRead: "read of the last messages", Participation: "participant's read", SearchRead: "search"}
    return [(name[type(basis)], basis.read)]


def found_of(kind: Kind, violations: list[tuple[str, MessageId | None, str]]) -> FoundViolations:
    """Put what was found together, in little room."""
    places: dict[int, Intervals] = {}
    names: list[str] = []
    for message, place, _ in violations:
        if place is not None:
            places.setdefault(place[0], Intervals()).add(place[1])
        else:
            names.append(writable(message))
    return FoundViolations(
        kind=kind, detail=writable(violations[0][2]), first=writable(violations[0][0]), places=places, names=names
    )
