"""Counting violations once each, and telling their story while the facts are at hand."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from soak.model.absence import Suspicion
from soak.model.book import SessionBook
from soak.model.case import Basis, Case, found_of, told
from soak.model.cause import explain
from soak.model.faults import FaultWindow
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.read import Finding, Place, Read, Rules, name_of
from soak.model.second_look import Late, Lost
from soak.model.telemetry import ServerSample
from soak.model.text import Author
from soak.verifier import evidence_file
from soak.verifier.clues import Detective
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.journal import Change, Violation, violation_id
from soak.verifier.state import State
from soak.verifier.story import Told, story_of
from soak.verifier.watched import Watched

_log = structlog.get_logger()

RECENT_VIOLATIONS_MAX = 50
SAMPLES_MAX = 16
"""Samples of each server that a case holds, at most."""

HEALED_BY_A_LATER_READ = frozenset({Kind.STALE, Kind.NON_MONOTONIC})


class Context(NamedTuple):
    """The read a violation was found by, and what was expected of it."""

    watched: Watched
    rules: Rules
    read: Read
    targets: tuple[str, ...]
    basis: Callable[[], tuple[SessionBook, Basis]]
    """The book and the reads that the verdict rests on; put together only when there is something to tell."""


class Wrong(NamedTuple):
    """One thing that is wrong: which message, where it belongs, what is wrong with it, where it stands in the read."""

    message: str
    place: Place | None
    detail: str
    at: int


class Reporter:
    """Turns findings into counted violations with evidence."""

    def __init__(self, state: State, folder: EvidenceFolder, author: Author, replica_stores: set[str]) -> None:
        self._state = state
        self._folder = folder
        self._author = author
        self._detective = Detective(state, author, replica_stores)
        self.recent: deque[Violation] = deque(maxlen=RECENT_VIOLATIONS_MAX)

    def report_findings(self, context: Context, findings: list[Finding]) -> None:
        for kind in dict.fromkeys(finding.kind for finding in findings):
            new = [finding for finding in findings if finding.kind is kind and self._is_new(context.watched, finding)]
            if new:
                self._publish(context, kind, [Wrong(f.message, f.place, f.detail, f.at) for f in new], None)

    def report_late(self, context: Context, late: list[Late], suspicion: Suspicion | None = None) -> None:
        """Report what a read lacked and a later one shows, where the contract promises better."""
        book = context.watched.book
        for kind in dict.fromkeys(one.kind for one in late):
            new = [
                Wrong(name_of(book, one.place), one.place, one.detail, -1)
                for one in late
                if one.kind is kind and one.is_broken_promise and context.watched.count_place(kind, *one.place)
            ]
            if new:
                self._publish(context, kind, new, suspicion)

    def report_loss(self, context: Context, losses: list[Lost], suspicion: Suspicion) -> int:
        """Report what is confirmed as gone, except what the contract excuses; returns how many it excuses."""
        watched, book = context.watched, context.watched.book
        broken: dict[Kind, list[Place]] = {}
        again: list[tuple[Kind, Place]] = []
        gone: dict[int, Intervals] = {}
        for lost in losses:
            gone.setdefault(lost.place[0], Intervals()).add(lost.place[1])
            if lost.excused_by is not None:
                self._tolerate(watched, lost)
                continue
            if watched.count_place(lost.kind, *lost.place):
                broken.setdefault(lost.kind, []).append(lost.place)
            elif watched.counted is not None and watched.counted.reopen(lost.kind, *lost.place):
                # It was counted before, had come back, and is gone again.
                again.append((lost.kind, lost.place))
        if not watched.canary:
            new = {(kind, place) for kind, places in broken.items() for place in places}
            counted = [one for one in losses if one.excused_by is not None or (one.kind, one.place) in new]
            self._state.recoveries.note(book, counted, suspicion)
        for number, seqs in gone.items():
            book.writers[number].excuse(seqs)
        for kind, places in broken.items():
            wrong = [Wrong(name_of(book, place), place, kind.sentence, -1) for place in places]
            self._publish(context, kind, wrong, suspicion)
        self._reopen(watched, again)
        return sum(1 for lost in losses if lost.excused_by is not None)

    def report_unfindable(self, context: Context, finding: Finding, suspicion: Suspicion) -> None:
        """Report what is stored and is not found; if it was counted before and had been found since, it is so again."""
        watched, place = context.watched, finding.place
        if place is None:
            return
        if watched.count_place(finding.kind, *place):
            wrong = Wrong(finding.message, place, finding.detail, finding.at)
            self._publish(context, finding.kind, [wrong], suspicion)
        elif watched.counted is not None and watched.counted.reopen(finding.kind, *place):
            self._reopen(watched, [(finding.kind, place)])

    def heal_found(self, watched: Watched, is_over: Callable[[Place], bool]) -> None:
        """Notice that what could not be found is found, or is not there any more."""
        counted = watched.counted
        if counted is None:
            return
        open_places = counted.open_places(Kind.UNFINDABLE)
        over = [(number, seq) for number, seqs in open_places.items() for seq in seqs if is_over((number, seq))]
        for number, seq in over:
            counted.heal(Kind.UNFINDABLE, number, Intervals([seq, seq]))
        if over:
            self._note(watched, "healed", [(Kind.UNFINDABLE, place) for place in over])

    def _tolerate(self, watched: Watched, lost: Lost) -> None:
        if self._state.recorder is not None:
            self._state.recorder.note_tolerated(watched, lost.place)

    def heal(self, watched: Watched) -> None:
        """Notice that what had been counted as lost is there again."""
        counted = watched.counted
        if counted is None:
            return
        back = [
            (kind, number, seqs)
            for kind in (Kind.LOST, Kind.ROLLED_BACK)
            for number, places in counted.open_places(kind).items()
            if (seqs := places.both(watched.book.writers[number].standing))
        ]
        changes: list[tuple[Kind, Place]] = []
        for kind, number, seqs in back:
            writer = watched.book.writers[number]
            writer.excused = writer.excused.minus(seqs)
            counted.heal(kind, number, seqs)
            changes += [(kind, (number, seq)) for seq in seqs]
        if changes:
            self._note(watched, "healed", changes)

    def _reopen(self, watched: Watched, again: list[tuple[Kind, Place]]) -> None:
        if again:
            self._note(watched, "reopened", again)

    def _note(self, watched: Watched, event: str, changed: list[tuple[Kind, Place]]) -> None:
        """Count, and write into the journal, that violations are over or there again."""
        if watched.canary:
            return
        counts = self._state.tally.stores[watched.book.store]
        is_healed = event == "healed"
        for kind, _ in changed:
            counts.healed[kind.value] += int(is_healed)
            counts.open[kind.value] += -1 if is_healed else 1
        if not self._folder.note([self._change(watched, is_healed=is_healed, kind=k, place=p) for k, p in changed]):
            self._state.tally.evidence_failures += 1

    def _change(self, watched: Watched, *, is_healed: bool, kind: Kind, place: Place) -> Change:
        run, book = self._state.header.run, watched.book
        message = name_of(book, place)
        return Change(
            event="healed" if is_healed else "reopened",
            id=violation_id(run, book.store, book.session, kind.value, message),
            run=run,
            kind=kind.value,
            store=book.store,
            session=book.session,
            message=message,
            writer=place[0],
            seq=place[1],
            at_wall_seconds=time.time(),
        )

    def _is_new(self, watched: Watched, finding: Finding) -> bool:
        if finding.place is not None:
            return watched.count_place(finding.kind, *finding.place)
        return watched.count_name(finding.kind, told(finding.message))

    def _publish(self, context: Context, kind: Kind, found: Sequence[Wrong], suspicion: Suspicion | None) -> None:
        """Count what was found, and put the evidence on disk: the file first, then the journal that makes it count."""
        book = context.watched.book
        if context.watched.canary:
            for wrong in found:
                self._state.canary.rang(context.watched, kind, wrong.message)
            return
        places = [wrong.place for wrong in found if wrong.place is not None]
        cause = explain(self._detective.gather(context.watched, kind, places, context.read, suspicion))
        violations = self._violations(book, kind, found, cause.cause.value)
        document = None
        if violations[0].evidence:
            faults = self._faults(context)
            at, read, rules = found[0].at, context.read, context.rules
            facts = Told(context.watched, kind, violations, at, read, suspicion, rules, faults, cause)
            case = self._case(context, kind, found, faults)
            document = evidence_file.encode(story_of(facts, self._author), case)
        tally = self._state.tally
        if not self._folder.write(violations, document):
            tally.evidence_failures += 1
        counts = tally.stores[book.store]
        counts.violations[kind.value] += len(violations)
        if violations[0].healed:
            counts.healed[kind.value] += len(violations)
        else:
            counts.open[kind.value] += len(violations)
        self.recent.extend(violations)
        _log.error(
            "violation",
            id=violations[0].id,
            kind=kind.value,
            store=book.store,
            message=violations[0].message,
            detail=violations[0].detail,
            cause=violations[0].cause,
            count=len(violations),
        )

    def _violations(self, book: SessionBook, kind: Kind, found: Sequence[Wrong], cause: str) -> list[Violation]:
        run, now = self._state.header.run, time.time()
        names = [told(wrong.message) for wrong in found]
        ids = [violation_id(run, book.store, book.session, kind.value, name) for name in names]
        evidence = ids[0] if self._folder.has_room(kind.value) else ""
        return [
            Violation(
                id=identity,
                run=run,
                kind=kind.value,
                store=book.store,
                session=book.session,
                message=name,
                writer=wrong.place[0] if wrong.place else None,
                seq=wrong.place[1] if wrong.place else None,
                detail=told(wrong.detail),
                at_wall_seconds=now,
                healed=kind in HEALED_BY_A_LATER_READ,
                cause=cause,
                evidence=evidence,
            )
            for identity, name, wrong in zip(ids, names, found, strict=True)
        ]

    # -- the case --

    def _case(self, context: Context, kind: Kind, found: Sequence[Wrong], faults: list[FaultWindow]) -> Case:
        book, basis = context.basis()
        targets = self._state.targets
        return Case(
            run=self._author.run,
            seed=self._state.header.seed,
            store=book.store,
            session=book.session,
            rules=context.rules,
            book=book,
            basis=basis,
            faults=[msgspec.structs.replace(window, known={}) for window in faults],
            stores_on={t: [store for store, on in targets.items() if t in on] for t in context.targets},
            samples=[sample for target in context.targets for sample in self._samples(target)],
            found=found_of(kind, [(wrong.message, wrong.place, wrong.detail) for wrong in found]),
        )

    def _faults(self, context: Context) -> list[FaultWindow]:
        return [window for window in self._state.faults.values() if window.target in context.targets]

    def _samples(self, target: str) -> list[ServerSample]:
        return list(self._state.samples.get(target, ()))[-SAMPLES_MAX:]
