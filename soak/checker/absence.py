"""From suspicion to verdict: what a second read says about what a first one lacked."""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.expected_session import ExpectedSession
from soak.checker.intervals import Intervals
from soak.checker.read import Read
from soak.checker.suspicion import Suspicion
from soak.checker.writer_book import NOTHING

Seqs = dict[int, Intervals]
"""Messages of one session, by writer."""


class Resolution(NamedTuple):
    """What became of a suspicion by a later read."""

    lost: Seqs
    rolled_back: Seqs
    stale: Seqs
    non_monotonic: Seqs


def suspect(book: ExpectedSession, absent: Seqs, read: Read, known: list[Suspicion]) -> Suspicion | None:
    """Open a suspicion for what no other one covers yet. The book is as it was before this read was taken into it."""
    new: Seqs = {}
    for number, seqs in absent.items():
        rest = seqs
        for suspicion in known:
            rest = rest.minus(Intervals(suspicion.absent.get(number, [])))
        if rest:
            new[number] = rest
    if not new:
        return None
    shown = {number: book.writers[number].standing.copy() for number in new}
    for number, seq in (*book.unsettled_names(), *book.veiled_names()):
        if number in shown:
            shown[number].add(seq)
    seen = {number: seqs.both(shown[number]) for number, seqs in new.items()}
    last_seen = min([book.last_read, *(at for number, seq, at in book.veiled or () if seq in new.get(number, NOTHING))])
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
