"""The story of a violation, put together while the facts are at hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from soak.model.absence import Suspicion
from soak.model.attempt import Attempt
from soak.model.causes import Explanation
from soak.model.faults import FaultWindow
from soak.model.identity import is_well_made
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.message import Message, Stored, garbled
from soak.model.read import Place, Read, Rules
from soak.model.text import Author
from soak.verifier.journal import Violation
from soak.verifier.watched import Watched

NEIGHBOURS = 3
EXCERPT_CHARACTERS = 200
RAW_BYTES_MAX = 64 * 1024
SAME_STORY_MAX = 200
"""Violations told in one evidence file, at most; the rest are in the journal."""


class Told(NamedTuple):
    """What a story is made of."""

    watched: Watched
    kind: Kind
    violations: list[Violation]
    at: int
    """Where the first of them stands in the read; -1: nowhere."""
    read: Read
    suspicion: Suspicion | None
    rules: Rules
    faults: list[FaultWindow]
    cause: Explanation


def story_of(told: Told, author: Author) -> dict[str, Any]:
    """Tell a violation, for the file that a person opens first."""
    book, read, first = told.watched.book, told.read, told.violations[0]
    place = None if first.writer is None or first.seq is None else (first.writer, first.seq)
    attempt = _attempt(told.watched, place)
    return {
        "id": first.id,
        "kind": told.kind.value,
        "meaning": told.kind.sentence,
        "run": author.run,
        "store": book.store,
        "session": book.session,
        "message": first.message,
        "detail": first.detail,
        "found_at_wall_seconds": first.at_wall_seconds,
        "clock_offset_us": clock_offset_us(),
        "also": [violation.message for violation in told.violations[1:SAME_STORY_MAX]],
        "also_ids": [violation.id for violation in told.violations[1:SAME_STORY_MAX]],
        "count": len(told.violations),
        "clause": {"broken": told.kind.clause, "contract": told.rules.contract.clauses()},
        "life": _life(told, place, attempt),
        **shown_in(read.items, told.at, place, book.session, author),
        "reads": _reads(read, told.suspicion),
        "faults": [_fault(window) for window in told.faults],
        "probable_cause": {
            "cause": told.cause.cause.value,
            "facts": told.cause.facts,
            "against": told.cause.against,
        },
    }


def shown_in(
    items: Sequence[Stored], at: int, place: Place | None, session: str, author: Author
) -> dict[str, dict[str, Any] | list[dict[str, Any]] | None]:
    """Show what a message was written as, what stands in its place, and what stands around that."""
    return {
        "expected": _expected(author, session, place),
        "stored": _stored(items, at),
        "neighbours": _neighbours(items, at, place),
    }


def clock_offset_us() -> int:
    """Return what turns the times of a run into those on a wall, in microseconds."""
    return time.time_ns() // 1000 - time.monotonic_ns() // 1000


def _attempt(watched: Watched, place: Place | None) -> Attempt | None:
    attempts = (*watched.book.recent, *watched.book.pending)
    return next((attempt for attempt in attempts if (attempt.writer, attempt.seq) == place), None)


def _life(told: Told, place: Place | None, attempt: Attempt | None) -> dict[str, Any]:
    if place is None:
        return {}
    suspicion = told.suspicion
    writer = told.watched.book.writers[place[0]]
    seq = place[1]
    outcome = "ok" if seq in writer.acked else "unknown or still under way"
    outcome = "failed" if seq in writer.failed else outcome
    outcome = "unknown, seen later" if seq in writer.unknown and seq in writer.acked else outcome
    seen = suspicion is not None and seq in Intervals(suspicion.seen.get(place[0], []))
    return {
        "worker": told.watched.worker,
        "leased_up_to": writer.leased,
        "outcome": outcome,
        "sent_us": attempt.sent if attempt else None,
        "acknowledged_us": attempt.ended if attempt else None,
        "seen_by_an_earlier_read": seen or seq in writer.standing,
        "last_read_with_it_us": suspicion.last_seen if seen and suspicion is not None else None,
        "first_read_without_it_us": suspicion.invoked if suspicion else None,
        "judged_by_the_read_at_us": told.read.invoked,
    }


def _expected(author: Author, session: str, place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    message = author.write(session, *place)
    return {"role": message.role, "content": message.content}


def _stored(items: Sequence[Stored], at: int) -> dict[str, Any] | None:
    if not 0 <= at < len(items):
        return None
    item = items[at]
    raw = _raw(item)
    shown: dict[str, Any] = {"position": at, "raw_hex": raw[:RAW_BYTES_MAX].hex()}
    if isinstance(item, Message):
        shown |= {"name": _text(item.name), "run": _text(item.run), "role": _text(item.role)}
        shown |= {"content": _text(item.content)}
    return shown


def _stands_after(item: Stored, place: Place) -> bool:
    return isinstance(item, Message) and is_well_made(item) and (item.writer, item.seq) > place


def _raw(item: Stored) -> bytes:
    try:
        if isinstance(item, Message):
            return item.to_bytes()
    except (TypeError, ValueError, OverflowError):
        pass  # a store of the user's put something into it that no message holds
    return garbled(item, "").raw


def _text(value: object) -> str:
    """Return anything as text that can be written down, half characters and all."""
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001  a store of the user's may have put anything into a message
        text = f"cannot be shown: {type(error).__name__}"
    return text.encode("utf-8", "backslashreplace").decode()


def _neighbours(items: Sequence[Stored], at: int, place: Place | None) -> list[dict[str, Any]]:
    if at < 0 and place is not None:
        # It is not there: show what stands where it should, next to its own writer's messages.
        at = next((index for index, item in enumerate(items) if _stands_after(item, place)), len(items))
    low, high = max(0, at - NEIGHBOURS), min(len(items), at + NEIGHBOURS + 1)
    return [
        {
            "position": index,
            "name": _text(item.name) if isinstance(item, Message) else None,
            "content": _text(item.content)[:EXCERPT_CHARACTERS] if isinstance(item, Message) else None,
        }
        for index, item in enumerate(items[low:high], start=low)
    ]


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
