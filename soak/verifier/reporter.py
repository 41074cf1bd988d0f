"""Counting violations once each, and telling their story while the facts are at hand."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import structlog

from soak.checker.case import Basis, Case, SearchRead, found_of, writable
from soak.checker.causes import explain
from soak.checker.events import (
    HEALED_BY_A_LATER_READ,
    Confirmed,
    Gone,
    Healed,
    Observed,
    Reopened,
    Tolerated,
    Verified,
    Wrong,
)
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultWindow
from soak.checker.kinds import Kind
from soak.checker.patterns import Traits
from soak.checker.read import MessageId, Read
from soak.checker.session import StoreJudging, unpacked
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.verifier import evidence_file
from soak.verifier.clues import Detective
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.findings import rank_example
from soak.verifier.journal import Change, Violation, violation_id
from soak.verifier.state import State
from soak.verifier.story import StoryFacts, story_of
from soak.verifier.tally import STALE_LAG_BUCKETS_SECONDS, StoreTally
from soak.verifier.tracked_session import TrackedSession

__all__ = ["Basis", "Reporter"]

_log = structlog.get_logger()

RECENT_VIOLATIONS_MAX = 50
SAMPLES_MAX = 16
"""Samples of each server that a case holds, at most."""


class Reporter:
    """Turns what the checker says into counted violations with evidence."""

    def __init__(
        self, state: State, folder: EvidenceFolder, author: MessageGenerator, replica_stores: set[str]
    ) -> None:
        self._state = state
        self._folder = folder
        self._author = author
        self._detective = Detective(state, author, replica_stores)
        self.recent: deque[Violation] = deque(maxlen=RECENT_VIOLATIONS_MAX)

    def report(
        self,
        tracked: TrackedSession,
        judging: StoreJudging,
        read: Read,
        observed: Observed,
        basis: Callable[[], Basis] | None,
        tally: StoreTally,
    ) -> None:
        """Take in all that came of one read."""
        for event in observed.events:
            if isinstance(event, Verified):
                tally.verified += event.messages
                tally.released += event.released
                tally.surfaced += len(event.surfaced)
                if event.surfaced:
                    self._state.recovery_times.surfaced(tracked.book, event.surfaced)
            elif isinstance(event, Confirmed):
                self._publish(tracked, judging, read, event, observed.before, basis)
            elif isinstance(event, Gone):
                self._account_for(tracked, event, tally)
            elif isinstance(event, Tolerated):
                _measure(event, tally)
            elif isinstance(event, Healed | Reopened):
                self._note(tracked, event.changes, is_healed=isinstance(event, Healed))

    def _account_for(self, tracked: TrackedSession, gone: Gone, tally: StoreTally) -> None:
        """Count what is tolerated, and put every loss down to the fault that may have taken it."""
        for lost in gone.losses:
            if lost.excused_by is not None:
                tally.tolerated += 1
                if self._state.recorder is not None:
                    self._state.recorder.note_tolerated(tracked, lost.place)
        if not tracked.canary:
            self._state.recoveries.note(tracked.book, gone.losses, gone.suspicion)

    def _note(
        self, tracked: TrackedSession, changed: list[tuple[Kind, str, MessageId | None]], *, is_healed: bool
    ) -> None:
        """Count, and write into the journal, that violations are over or there again."""
        if tracked.canary:
            return
        counts = self._state.tally.stores[tracked.book.store]
        for kind, _, _ in changed:
            counts.healed[kind.value] += int(is_healed)
            counts.open[kind.value] += -1 if is_healed else 1
        changes = [self._change(tracked.book, one, is_healed=is_healed) for one in changed]
        self._state.tally.findings.change(changes)
        if not self._folder.note(changes):
            self._state.tally.evidence_failures += 1

    def _change(self, book: ExpectedSession, change: tuple[Kind, str, MessageId | None], *, is_healed: bool) -> Change:
        kind, name, place = change
        run, message = self._state.header.run, writable(name)
        return Change(
            event="healed" if is_healed else "reopened",
            id=violation_id(run, book.store, book.session, kind.value, message),
            run=run,
            kind=kind.value,
            store=book.store,
            session=book.session,
            message=message,
            writer=None if place is None else place[0],
            seq=None if place is None else place[1],
            at_wall_seconds=time.time(),
        )

    def _publish(
        self,
        tracked: TrackedSession,
        judging: StoreJudging,
        read: Read,
        event: Confirmed,
        before: bytes | None,
        basis: Callable[[], Basis] | None,
    ) -> None:
        """Count what was found, and put the evidence on disk: the file first, then the journal that makes it count."""
        book, kind, found = tracked.book, event.kind, event.wrong
        if tracked.canary:
            for wrong in found:
                self._state.canary.rang(tracked, kind, wrong.message)
            return
        if before is None or basis is None:
            raise ValueError(f"{kind.value} was found by nothing that can be shown")
        # As it stood before the read was taken in: what had been seen by then is part of the story.
        earlier = TrackedSession(unpacked(before), tracked.worker, tracked.number)
        places = [wrong.place for wrong in found if wrong.place is not None]
        is_search = kind is Kind.DUPLICATED and isinstance(basis(), SearchRead)
        clues = self._detective.gather(earlier, kind, places, read, event.suspicion, is_search=is_search)
        cause = explain(clues)
        traits = self._detective.traits(earlier, kind, [(wrong.message, wrong.place) for wrong in found], read)
        violations = self._violations(book, kind, found, cause.cause.value, traits)
        document = None
        if violations[0].evidence:
            faults = judging.windows()
            facts = StoryFacts(
                earlier, kind, violations, found[0].at, read, event.suspicion, judging.rules, faults, cause
            )
            case = self._case(judging, event, earlier.book, basis(), faults)
            story = story_of(facts, self._author)
            violations[0] = msgspec.structs.replace(violations[0], example_rank=rank_example(story))
            document = evidence_file.encode(story, case)
        self._count(book.store, kind, violations, document)

    def _count(self, store: str, kind: Kind, violations: list[Violation], document: bytes | None) -> None:
        tally = self._state.tally
        if not self._folder.write(violations, document):
            tally.evidence_failures += 1
        counts = tally.stores[store]
        counts.violations[kind.value] += len(violations)
        if violations[0].healed:
            counts.healed[kind.value] += len(violations)
        else:
            counts.open[kind.value] += len(violations)
        tally.findings.add(violations)
        self.recent.extend(violations)
        _log.error(
            "violation",
            id=violations[0].id,
            kind=kind.value,
            store=store,
            message=violations[0].message,
            detail=violations[0].detail,
            cause=violations[0].cause,
            count=len(violations),
        )

    def _violations(
        self, book: ExpectedSession, kind: Kind, found: Sequence[Wrong], cause: str, traits: list[Traits]
    ) -> list[Violation]:
        run, now = self._state.header.run, time.time()
        names = [writable(wrong.message) for wrong in found]
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
                detail=writable(wrong.detail),
                at_wall_seconds=now,
                healed=kind in HEALED_BY_A_LATER_READ,
                cause=cause,
                evidence=evidence,
                traits=trait,
            )
            for identity, name, wrong, trait in zip(ids, names, found, traits, strict=True)
        ]

    def _case(
        self, judging: StoreJudging, event: Confirmed, before: ExpectedSession, basis: Basis, faults: list[FaultWindow]
    ) -> Case:
        return Case(
            run=self._author.run,
            seed=str(self._state.header.seed),
            store=before.store,
            session=before.session,
            rules=judging.rules,
            settle_us=judging.settle_us,
            asks_primary=judging.asks_primary,
            reads_replica=judging.reads_replica,
            book=before,
            basis=basis,
            suspicion=event.suspicion,
            faults=[msgspec.structs.replace(window, known={}) for window in faults],
            targets={store: list(needs) for store, needs in self._state.targets.items()},
            catch_up_us=judging.faults.catch_up_us,
            sampled=judging.faults.samples(judging.targets),
            samples=[sample for target in judging.targets for sample in self._samples(target)],
            found=found_of(event.kind, [(wrong.message, wrong.place, wrong.detail) for wrong in event.wrong]),
        )

    def _samples(self, target: str) -> list[ServerSample]:
        return list(self._state.samples.get(target, ()))[-SAMPLES_MAX:]


def _measure(event: Tolerated, tally: StoreTally) -> None:
    """Measure how far behind reads were, apart for those in the shadow of a fault."""
    for one in event.late:
        tally.stale_lag.observe(one.lag_seconds, STALE_LAG_BUCKETS_SECONDS)
        tally.staleness.observe(one.lag_seconds)
        if event.is_shadowed and not one.is_broken_promise:
            tally.shadowed_reads += 1
            tally.shadowed_lag_seconds_max = max(tally.shadowed_lag_seconds_max, one.lag_seconds)
            tally.shadowed_seconds_max = max(tally.shadowed_seconds_max, event.seconds)
