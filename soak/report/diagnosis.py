"""The diagnosis of a violation as it is shown: every fact is held against the evidence again before it is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from soak.checker.causes import Diagnosis
from soak.checker.clues import Clues, acknowledged_before
from soak.checker.patterns import Sign, patterns
from soak.json_input import decoder_of
from soak.report.text import clock_ms
from soak.report.violation_records import ViolationRecord
from soak.verifier.journal import Violation

decoder_of(Diagnosis)  # stories are made in several threads
_ABSENT = frozenset({"lost", "rolled_back"})
_HOLE = "it is a hole"
"""In the sentences of facts, too."""


class Sentences(NamedTuple):
    """The sentences of a story."""

    facts: list[str]
    against: list[str]
    known: list[str]


def sentences_of(story: dict[str, Any]) -> Sentences:
    """Return the sentences that hold; of a story without typed facts, those that were written down."""
    try:
        diagnosis = msgspec.convert(story.get("diagnosis"), Diagnosis)
    except msgspec.ValidationError:
        cause = story.get("probable_cause") or {}
        texts = (cause.get("facts"), cause.get("against"), story.get("known"))
        return Sentences(*([str(text) for text in group or []] for group in texts))
    offset_us = story.get("clock_offset_us", 0)

    def when(at_us: int) -> str:
        return clock_ms((at_us + offset_us) / 1e6)

    groups = (diagnosis.facts, diagnosis.against, diagnosis.observed)
    facts, against, known = ([fact.sentence(when) for fact in group if fact.holds(diagnosis.clues)] for group in groups)
    if not any(_HOLE in sentence for sentence in (*facts, *against, *known)):
        known += _hole(diagnosis.clues)
    return Sentences(facts, against, known)


def _hole(clues: Clues) -> list[str]:
    """Say so where something stands that was sent after the acknowledgement of what is gone: no tail was lost."""
    mine, place = clues.attempt, clues.place
    if clues.kind.value not in _ABSENT or mine is None or place is None or clues.is_present(place):
        return []
    later = [one for one in clues.others if acknowledged_before(mine, one) and clues.is_present((one.writer, one.seq))]
    if not later:
        return []
    first = min(later, key=lambda one: one.sent)
    survivor = f"{first.writer}/{first.seq}, which was sent after its acknowledgement"
    return [f"{_HOLE}: {survivor}, stands in the read that lacks it"]


def in_common(record: ViolationRecord, others: Iterable[ViolationRecord]) -> list[str]:
    """Say what all violations of the same finding have in common, and where else the message is reported."""
    mine = record.violation
    return shared_by(
        other.violation
        for other in others
        if (other.violation.run, other.violation.store, other.violation.kind, other.violation.cause)
        == (mine.run, mine.store, mine.kind, mine.cause)
    )


def shared_by(finding: Iterable[Violation]) -> list[str]:
    """Say what all these violations have in common."""
    signs = [
        Sign(kind=one.kind, session=one.session, found_wall_seconds=one.at_wall_seconds, traits=one.traits)
        for one in finding
    ]
    return [pattern.sentence() for pattern in patterns(signs)]


def elsewhere(record: ViolationRecord, others: Iterable[ViolationRecord]) -> list[str]:
    """Join what is lost in one session and leaked into another: it is one message."""
    mine = record.violation
    if mine.kind in _ABSENT:
        leak = f"{mine.run}:{mine.message}"
        return [
            f"it stands in session {other.session} (violation {other.id})"
            for other in (one.violation for one in others)
            if other.kind == "leaked" and (other.store, other.message) == (mine.store, leak)
        ]
    if mine.kind == "leaked":
        name = mine.message.partition(":")[2]
        return [
            f"it is missing from its own session {other.session} (violation {other.id})"
            for other in (one.violation for one in others)
            if other.kind in _ABSENT and (other.store, other.run, other.message) == (mine.store, mine.run, name)
        ]
    return []
