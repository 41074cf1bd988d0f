"""The case of a violation: all that the verdict rests on, as values from which it can be reached again.

A case holds the book as the ledger's records had filled it when the verdict was reached, the reads, the contract and
the fault windows. `derive` reaches the verdict once more, with the same functions that reached it the first time, and
with no server about.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import msgspec

from soak.model.absence import Suspicion
from soak.model.book import SessionBook
from soak.model.faults import FaultWindow
from soak.model.intervals import Intervals
from soak.model.judge import judge
from soak.model.kinds import Kind
from soak.model.partial import Seen, judge_glance, judge_seen
from soak.model.read import Place, Rules, name_of
from soak.model.saved import SavedRead, count_of, restore
from soak.model.search import Again, Missed, judge_search, search_again
from soak.model.second_look import Late, Look, is_calm, look_again, untold
from soak.model.telemetry import ServerSample
from soak.model.text import Author


class Study(msgspec.Struct, frozen=True, kw_only=True, tag="study"):
    """A read of the whole session that shows what is wrong by itself."""

    read: SavedRead
    told: dict[int, Intervals] = {}
    """What had been missed before, so that its coming back is no news."""


class SecondLook(msgspec.Struct, frozen=True, kw_only=True, tag="second look"):
    """A first read that lacked something, and a later one that confirms it or shows it again."""

    suspicion: Suspicion
    """As it stood before the later read; it holds the first one."""
    read: SavedRead
    primary: SavedRead | None = None
    asks_primary: bool = False
    final_us: int | None = None


class Glance(msgspec.Struct, frozen=True, kw_only=True, tag="glance"):
    """A read of the last so many, held against the whole order that the book knows."""

    read: SavedRead
    last: int


class Participation(msgspec.Struct, frozen=True, kw_only=True, tag="participation"):
    """A read by a participant of the load, held against the whole order that the book knows."""

    read: SavedRead
    last: int | None
    acked: list[tuple[int, int, int, int]]


class Search(msgspec.Struct, frozen=True, kw_only=True, tag="search"):
    """A search for the words of one message, by the verifier or by a participant: what stands in its answer."""

    read: SavedRead
    asked: Place
    limit: int


class SecondSearch(msgspec.Struct, frozen=True, kw_only=True, tag="second search"):
    """A search that lacked the message whose words were asked for, a later one, and a whole read after that."""

    missed: Missed
    """It holds the first one."""
    search: SavedRead
    limit: int
    read: SavedRead
    final_us: int | None = None


Basis = Study | SecondLook | Glance | Participation | Search | SecondSearch


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Which violations were found: of one kind, by one judgement."""

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
    """What one verdict rests on."""

    run: str
    seed: int
    store: str
    session: str
    rules: Rules
    book: SessionBook
    """As the ledger and earlier reads had filled it, before the read of this case was taken into it."""
    basis: Basis
    faults: list[FaultWindow] = []
    """Fault windows of the servers that the store depends on."""
    stores_on: dict[str, list[str]] = {}
    """Which stores depend on each of those servers."""
    samples: list[ServerSample] = []
    """What those servers said of themselves around it."""
    found: Found


TOLD_CHARACTERS_MAX = 500
MESSAGES_MAX = 10_000_000
"""Of one session; a number beyond that is damage."""


def told(text: str) -> str:
    """Return any text as one that can be written down: of bounded length, half characters escaped."""
    return text[:TOLD_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()


class Derived(NamedTuple):
    """A violation as a case gives it."""

    kind: Kind
    message: str
    detail: str

    @classmethod
    def of(cls, kind: Kind, message: str, detail: str) -> Derived:
        return cls(kind, told(message), told(detail))


class CannotDeriveError(ValueError):
    """The case does not hold all that the verdict rested on."""


def derive(case: Case) -> list[Derived]:
    """Reach the verdict of a case again: every violation that its reads show."""
    _check_whole(case)
    author = Author(case.run, case.seed)
    basis, book = case.basis, case.book
    if isinstance(basis, Study):
        judgement = judge(book, restore(basis.read, case.session, author), case.rules, author)
        findings = untold(judgement.findings, basis.told)
        return [Derived.of(finding.kind, finding.message, finding.detail) for finding in findings]
    if isinstance(basis, SecondLook):
        return _derive_second_look(case, basis, author)
    if isinstance(basis, SecondSearch):
        return _derive_second_search(case, basis, author)
    part = restore(basis.read, case.session, author)
    if isinstance(basis, Search):
        findings = judge_search(book, part, basis.asked, basis.limit, case.rules, author)
        return [Derived.of(finding.kind, finding.message, finding.detail) for finding in findings]
    if isinstance(basis, Glance):
        return _derive_seen(book, judge_glance(book, part, basis.last, case.rules))
    return _derive_seen(book, judge_seen(book, part, basis.last, basis.acked, case.rules, author))


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
    if isinstance(case.basis, SecondLook):
        sets += [Intervals(bounds) for bounds in case.basis.suspicion.absent.values()]
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
    if isinstance(basis, SecondLook):
        first = [("first read without it", basis.suspicion.shown)] if basis.suspicion.shown is not None else []
        last = [("read of the primary", basis.primary)] if basis.primary is not None else []
        return [*first, ("second read", basis.read), *last]
    if isinstance(basis, SecondSearch):
        return [("first search", basis.missed.answer), ("second search", basis.search), ("whole read", basis.read)]
    name = {
        Study: "whole read",
        Glance: "read of the last messages",
        Participation: "participant's read",
        Search: "search",
    }
    return [(name[type(basis)], basis.read)]


def _derive_second_look(case: Case, basis: SecondLook, author: Author) -> list[Derived]:
    read = restore(basis.read, case.session, author)
    look = Look(
        book=case.book,
        read=read,
        judgement=judge(case.book, read, case.rules, author),
        primary=None if basis.primary is None else restore(basis.primary, case.session, author),
        run=case.run,
        rules=case.rules,
        faults=case.faults,
        is_calm=is_calm(case.faults, case.stores_on),
        final_us=basis.final_us,
        asks_primary=basis.asks_primary,
    )
    looked = look_again(look, copied(basis.suspicion))
    broken = [one for one in looked.lost if one.excused_by is None]
    return [
        *(Derived.of(one.kind, name_of(case.book, one.place), one.kind.sentence) for one in broken),
        *_derive_late(case.book, looked.late),
    ]


def _derive_second_search(case: Case, basis: SecondSearch, author: Author) -> list[Derived]:
    again = Again(
        book=case.book,
        missed=basis.missed,
        search=restore(basis.search, case.session, author),
        limit=basis.limit,
        whole=restore(basis.read, case.session, author),
        rules=case.rules,
        faults=case.faults,
        is_calm=is_calm(case.faults, case.stores_on),
        final_us=basis.final_us,
    )
    _, told_of = search_again(again, author)
    if told_of is None:
        return []
    if isinstance(told_of, Late):
        return _derive_late(case.book, [told_of])
    return [Derived.of(told_of.kind, told_of.message, told_of.detail)]


def _derive_seen(book: SessionBook, seen: Seen) -> list[Derived]:
    findings = [Derived.of(finding.kind, finding.message, finding.detail) for finding in seen.findings]
    return findings + _derive_late(book, seen.late)


def _derive_late(book: SessionBook, late: list[Late]) -> list[Derived]:
    return [Derived.of(one.kind, name_of(book, one.place), one.detail) for one in late if one.is_broken_promise]


def copied(suspicion: Suspicion) -> Suspicion:
    """Return a suspicion that can be resolved without touching this one."""
    return msgspec.structs.replace(suspicion, absent={n: list(bounds) for n, bounds in suspicion.absent.items()})


def found_of(kind: Kind, violations: list[tuple[str, Place | None, str]]) -> Found:
    """Put what was found together, in little room."""
    places: dict[int, Intervals] = {}
    names: list[str] = []
    for message, place, _ in violations:
        if place is not None:
            places.setdefault(place[0], Intervals()).add(place[1])
        else:
            names.append(told(message))
    return Found(kind=kind, detail=told(violations[0][2]), first=told(violations[0][0]), places=places, names=names)
