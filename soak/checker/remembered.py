"""Times of messages that a crash may still take: each of the last minutes, and of what is older one now and then.

A contract that allows an hour to be lost must not make the verifier remember every message of an hour. A writer sends
one message after the other, so the next one whose time is known tells how old a message is at least; and the first and
the last of a short time tell of each in between how old it is at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from soak.checker.attempt import Attempt
from soak.checker.read import MessageId

EXACT_SECONDS = 120.0
EXACT_US = int(EXACT_SECONDS * 1e6)
SLOT_SECONDS = 15.0
SLOT_US = int(SLOT_SECONDS * 1e6)


def thinned(attempts: Iterable[Attempt], exact_since: int) -> list[Attempt]:
    """Keep every attempt since then, and of the older ones the first and the last of each writer in each slot."""
    older: dict[tuple[int, int], tuple[Attempt, Attempt]] = {}
    exact: list[Attempt] = []
    for attempt in attempts:
        if attempt.ended >= exact_since:
            exact.append(attempt)
            continue
        slot = (attempt.writer, attempt.ended // SLOT_US)
        first, last = older.get(slot, (attempt, attempt))
        older[slot] = (min(first, attempt, key=_seq), max(last, attempt, key=_seq))
    return [*(one for first, last in older.values() for one in dict.fromkeys((first, last))), *exact]


def next_known(attempts: Iterable[Attempt], place: MessageId) -> Attempt | None:
    """Return the first attempt of the same writer that came after a message and whose times are known."""
    later = [attempt for attempt in attempts if attempt.writer == place[0] and attempt.seq > place[1]]
    return min(later, key=_seq, default=None)


def thinned_out(attempts: Sequence[Attempt], place: MessageId) -> Attempt | None:
    """Return the next attempt that is known, if a message was left out between two of one slot; None: it is older."""
    earlier = [attempt for attempt in attempts if attempt.writer == place[0] and attempt.seq < place[1]]
    before, after = max(earlier, key=_seq, default=None), next_known(attempts, place)
    if before is None or after is None or before.ended // SLOT_US != after.ended // SLOT_US:
        return None
    return after


def _seq(attempt: Attempt) -> int:
    return attempt.seq
