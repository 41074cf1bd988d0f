"""The story of a violation, put together while the facts are at hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, NamedTuple

from soak.checker.causes import Explanation
from soak.checker.clues import neighbours
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultWindow
from soak.checker.incidents import Suspicion
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Message, Stored, garbled, is_well_made
from soak.checker.outcome import Attempt
from soak.checker.read import MessageId, Read, Rules
from soak.checker.second_look import times_of
from soak.checker.text import MessageGenerator
from soak.clock import clock_offset_us
from soak.verifier.journal import Violation
from soak.verifier.tracked_session import TrackedSession

NEIGHBOURS = 3
EXCERPT_CHARACTERS = 200
RAW_BYTES_MAX = 64 * 1024
SAME_STORY_MAX = 200
"""Violations in one evidence file, at most; the rest are in the journal."""


class StoryFacts(NamedTuple):
    """What a story is made of."""

    tracked: TrackedSession
    kind: Kind
    violations: list[Violation]
    at: int
    """Where the first of them stands in the read; -1: nowhere."""
    read: Read
    suspicion: Suspicion | None
    rules: Rules
    faults: list[FaultWindow]
    cause: Explanation


def story_of(violated: StoryFacts, author: MessageGenerator) -> dict[str, Any]:
    """Tell a violation, for the file that a person opens first."""
    book, read, first = violated.tracked.book, violated.read, violated.violations[0]
    place = None if first.writer is None or first.seq is None else (first.writer, first.seq)
    attempt = _attempt(violated.tracked, place)
    return {
        "id": first.id,
        "kind": violated.kind.value,
        "meaning": violated.kind.sentence,
        "run": author.run,
        "store": book.store,
        "session": book.session,
        "message": first.message,
        "detail": first.detail,
        "found_at_wall_seconds": first.at_wall_seconds,
        "clock_offset_us": clock_offset_us(),
        "also": [violation.message for violation in violated.violations[1:SAME_STORY_MAX]],
        "also_ids": [violation.id for violation in violated.violations[1:SAME_STORY_MAX]],
        "count": len(violated.violations),
        "clause": {"broken": violated.kind.clause, "contract": violated.rules.contract.clauses()},
        "life": _life(violated, place, attempt),
        **shown_in(read.items, violated.at, place, book, author),
        "reads": _reads(read, violated.suspicion),
        "faults": [_fault(window) for window in violated.faults],
        **_diagnosis(violated.cause),
    }


def _diagnosis(found: Explanation) -> dict[str, Any]:
    """Tell the facts twice: as sentences for people, and as values that can be held against the evidence again."""
    offset_us = clock_offset_us()

    def when(at_us: int) -> str:
        wall = dt.datetime.fromtimestamp((at_us + offset_us) / 1e6, dt.UTC)
        return f"{wall:%H:%M:%S}.{wall.microsecond // 1000:03d}Z"

    return {
        "probable_cause": {
            "cause": found.cause.value,
            "facts": [fact.sentence(when) for fact in found.facts],
            "against": [fact.sentence(when) for fact in found.against],
        },
        "known": [fact.sentence(when) for fact in found.observed],
        # Read back as a `Diagnosis`.
        "diagnosis": {
            "facts": list(found.facts),
            "against": list(found.against),
            "observed": list(found.observed),
            "clues": found.clues,
        },
    }


def shown_in(
    items: Sequence[Stored], at: int, place: MessageId | None, book: ExpectedSession, author: MessageGenerator
) -> dict[str, dict[str, Any] | list[dict[str, Any]] | None]:
    """Show what a message was written as, what stands in its place, and what stands around that."""
    return {
        "expected": _expected(author, book.session, place),
        "stored": _stored(items, at),
        "neighbours": _neighbours(items, at, place, book),
    }


def _attempt(tracked: TrackedSession, place: MessageId | None) -> Attempt | None:
    attempts = (*tracked.book.recent, *tracked.book.pending)
    return next((attempt for attempt in attempts if (attempt.writer, attempt.seq) == place), None)


def _life(violated: StoryFacts, place: MessageId | None, attempt: Attempt | None) -> dict[str, Any]:
    if place is None:
        return {}
    suspicion = violated.suspicion
    writer = violated.tracked.book.writers[place[0]]
    seq = place[1]
    outcome = "ok" if seq in writer.acked else "unknown or still under way"
    outcome = "failed" if seq in writer.failed else outcome
    outcome = "unknown, seen later" if seq in writer.unknown and seq in writer.acked else outcome
    seen = suspicion is not None and seq in Intervals(suspicion.seen.get(place[0], []))
    last_seen = violated.cause.clues.last_seen if violated.cause.clues is not None else 0
    return {
        "worker": violated.tracked.worker,
        "leased_up_to": writer.leased,
        "outcome": outcome,
        "sent_us": attempt.sent if attempt else None,
        "acknowledged_us": attempt.ended if attempt else None,
        "seen_by_an_earlier_read": seen or seq in writer.standing,
        "last_read_with_it_us": last_seen or None,
        "first_read_without_it_us": suspicion.invoked if suspicion else None,
        "judged_by_the_read_at_us": violated.read.invoked,
    }


def _expected(author: MessageGenerator, session: str, place: MessageId | None) -> dict[str, Any] | None:
    if place is None:
        return None
    message = author.write(session, *place)
    return {"role": message.role, "content": message.content}


def _stored(items: Sequence[Stored], at: int) -> dict[str, Any] | None:
    if not 0 <= at < len(items):
        return None
    item = items[at]
    shown: dict[str, Any] = {"position": at}
    if isinstance(item, Message):
        shown |= {"name": _text(item.name), "run": _text(item.run), "role": _text(item.role)}
        return shown | {"content": _text(item.content)}
    # Of a message soak has no bytes but its own. What is no message is shown as the store returned it.
    raw = garbled(item, "").raw
    return shown | {"raw_hex": raw[:RAW_BYTES_MAX].hex(), "raw_is": _RAW if isinstance(item, Garbled) else _REPR}


_RAW = "as the store returned it"
_REPR = "as Python writes what the store returned"


def _text(value: object) -> str:
    """Return anything as text that can be written down, half characters and all."""
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001  a store of the user's may have put anything into a message
        text = f"cannot be shown: {type(error).__name__}"
    return text.encode("utf-8", "backslashreplace").decode()


def _neighbours(
    items: Sequence[Stored], at: int, place: MessageId | None, book: ExpectedSession
) -> list[dict[str, Any]]:
    if at < 0 and place is not None:
        # It is not there: show what stands where it should, between what was said before and after it.
        at = _belongs_at(items, place, book)
    if at < 0:
        return []
    low, high = max(0, at - NEIGHBOURS), min(len(items), at + NEIGHBOURS + 1)
    return [
        {
            "position": index,
            "name": _text(item.name) if isinstance(item, Message) else None,
            "content": _text(item.content)[:EXCERPT_CHARACTERS] if isinstance(item, Message) else None,
        }
        for index, item in enumerate(items[low:high], start=low)
    ]


def _belongs_at(items: Sequence[Stored], place: MessageId, book: ExpectedSession) -> int:
    """Return where a message that is missing should stand in a read; -1: nobody knows."""
    stands = {
        (item.writer, item.seq): index
        for index, item in enumerate(items)
        if isinstance(item, Message) and is_well_made(item) and item.session == book.session
    }
    before, after = neighbours(stands, times_of(book), place)
    if after is not None:
        return stands[after]
    return -1 if before is None else stands[before] + 1


def _reads(read: Read, suspicion: Suspicion | None) -> list[dict[str, Any]]:
    reads = [{"invoked_us": read.invoked, "returned_us": read.returned, "items": len(read.items)}]
    if suspicion is not None:
        first = {"invoked_us": suspicion.invoked, "returned_us": suspicion.returned, "items": suspicion.items}
        reads.insert(0, first)
    return reads


def _fault(window: FaultWindow) -> dict[str, Any]:
    return {
        "kind": window.kind,
        "target": window.target,
        "started_us": window.started,
        "ended_us": window.ended,
        "planned": window.planned,
        "telemetry_before": window.telemetry,
        "telemetry_after": window.telemetry_after,
    }
