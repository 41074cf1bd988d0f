"""From suspicion to verdict: what a second read says about what a first one lacked."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from soak.model.book import NOTHING, SessionBook
from soak.model.intervals import Intervals
from soak.model.read import Read
from soak.model.saved import SavedRead

Seqs = dict[int, Intervals]
"""Messages of one session, by writer."""


class Suspicion(msgspec.Struct, kw_only=True):
    """What one read lacked although it had been acknowledged before."""

    invoked: int
    """When the first read that lacked it was invoked."""
    returned: int
    last_seen: int = 0
    """When the last whole read before it was invoked: it had shown what is in `seen`."""
    items: int
    """How many items that read returned."""
    absent: dict[int, list[int]]
    """Bounds of the missing runs by writer."""
    seen: dict[int, list[int]]
    """Those of them that an earlier read had shown."""
    shown: SavedRead | None = None
    """What that read returned."""
    before: bytes = b""
    """The order that had been verified before it, packed as in the book."""

    @property
    def is_over(self) -> bool:
        return not any(self.absent.values())


class Resolution(NamedTuple):
    """What became of a suspicion by a later read."""

    lost: Seqs
    rolled_back: Seqs
    stale: Seqs
    non_monotonic: Seqs


def suspect(
    book: SessionBook, absent: Seqs, read: Read, known: list[Suspicion], *, last_seen: int = 0
) -> Suspicion | None:
    """Open a suspicion for what no other one covers yet."""
    new: Seqs = {}
    for number, seqs in absent.items():
        rest = seqs
        for suspicion in known:
            rest = rest.minus(Intervals(suspicion.absent.get(number, [])))
        if rest:
            new[number] = rest
    if not new:
        return None
    seen = {number: seqs.both(book.writers[number].standing) for number, seqs in new.items()}
    return Suspicion(
        invoked=read.invoked,
        returned=read.returned,
        last_seen=last_seen,
        items=len(read.items),
        absent={number: seqs.bounds for number, seqs in new.items()},
        seen={number: seqs.bounds for number, seqs in seen.items() if seqs},
    )


def resolve(suspicion: Suspicion, absent: Seqs, present: Seqs, *, is_final: bool) -> Resolution:
    """Split a suspicion by a later read, and leave in it what is still open.

    `absent` and `present` are what that read lacked and showed; what is in neither is no longer expected. Presence is
    believed at once; absence only when `is_final`: after the settle time, from the primary, with no fault active.
    """
    resolution = Resolution({}, {}, {}, {})
    for number, bounds in list(suspicion.absent.items()):
        was = Intervals(bounds)
        seen = Intervals(suspicion.seen.get(number, []))
        back = was.both(present.get(number, NOTHING))
        still = was.both(absent.get(number, NOTHING))
        _put(resolution.non_monotonic, number, back.both(seen))
        _put(resolution.stale, number, back.minus(seen))
        if is_final:
            _put(resolution.rolled_back, number, still.both(seen))
            _put(resolution.lost, number, still.minus(seen))
        suspicion.absent[number] = [] if is_final else still.bounds
    return resolution


def _put(into: Seqs, number: int, seqs: Intervals) -> None:
    if seqs:
        into[number] = seqs
