"""Gathering what is known about one violation, from the book, the reads, the faults and the servers' own words."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import msgspec

from soak.model.absence import Suspicion
from soak.model.attempt import Attempt
from soak.model.book import SessionBook
from soak.model.clues import Clues
from soak.model.identity import is_well_made
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.message import Message, Stored
from soak.model.read import Place, Read
from soak.model.text import Author
from soak.verifier.state import State
from soak.verifier.watched import Watched

LOSSES = (Kind.LOST, Kind.ROLLED_BACK)


class Detective:
    """Gathers the clues of each violation, and remembers how the earlier losses of each store came about."""

    def __init__(self, state: State, author: Author, replica_stores: set[str]) -> None:
        self._state = state
        self._author = author
        self._replica_stores = replica_stores
        self._losses: Counter[str] = Counter()
        self._alone: Counter[str] = Counter()
        self._repeating: Counter[str] = Counter()

    def gather(
        self, watched: Watched, kind: Kind, places: Sequence[Place], read: Read, suspicion: Suspicion | None
    ) -> Clues:
        """Gather what is known about violations of one kind, found together; the first place stands for them all."""
        book = watched.book
        targets = self._state.targets[book.store]
        timeline = Timeline(book, read.items)
        place = places[0] if places else None
        seen = place is not None and suspicion is not None and _is_among(suspicion.seen, place)
        clues = Clues(
            kind=kind,
            attempt=timeline.attempt(place),
            others=[*book.recent, *book.pending],
            read_invoked=read.invoked,
            read_returned=read.returned,
            first_missed=suspicion.invoked if suspicion is not None else 0,
            last_seen=suspicion.last_seen if seen and suspicion is not None else 0,
            items=len(read.items) if suspicion is None else min(len(read.items), suspicion.items),
            is_prefix=timeline.is_prefix(places),
            is_tail=place is not None and not timeline.has_later(place),
            repeats_text=place is not None and self._repeats(book.session, place, read.items),
            reads_replica=book.store in self._replica_stores,
            worker_silent_us=self._silence(watched),
            faults=[window for window in self._state.faults.values() if window.target in targets],
            samples=sorted(chain.from_iterable(self._state.samples.get(t, ()) for t in targets), key=lambda s: s.at),
            troubles=list(self._state.lanes[book.store].troubles),
        )
        return self._with_history(clues, book.store) if kind in LOSSES else clues

    def _with_history(self, clues: Clues, store: str) -> Clues:
        self._losses[store] += 1
        self._alone[store] += int(clues.attempt is not None and not clues.rivals)
        self._repeating[store] += int(clues.repeats_text)
        return msgspec.structs.replace(
            clues,
            losses=self._losses[store],
            losses_alone=self._alone[store],
            losses_repeating=self._repeating[store],
        )

    def _repeats(self, session: str, place: Place, items: Sequence[Stored]) -> bool:
        mine = self._author.write(session, *place)
        return any(
            isinstance(item, Message) and (item.role, item.content) == (mine.role, mine.content) for item in items
        )

    def _silence(self, watched: Watched) -> int:
        worker = self._state.workers.get(watched.worker)
        if worker is None or worker.farewell:
            return 0
        return time.monotonic_ns() // 1000 - max(worker.last_heard, self._state.listening_since)


class Timeline:
    """What stands in a session, by the times at which it was sent and acknowledged, as far as they are known."""

    def __init__(self, book: SessionBook, items: Sequence[Stored]) -> None:
        self._attempts = {(one.writer, one.seq): one for one in chain(book.recent, book.pending)}
        self._present = [(item.writer, item.seq) for item in items if isinstance(item, Message) and is_well_made(item)]

    def attempt(self, place: Place | None) -> Attempt | None:
        return None if place is None else self._attempts.get(place)

    def is_prefix(self, gone: Sequence[Place]) -> bool:
        """Whether more than one message is gone, and nothing stands that is older than the newest of them."""
        if len(gone) <= 1:
            return False
        newest = max(gone, key=self._ended)
        return not any(self._is_before(place, newest) for place in self._present)

    def has_later(self, place: Place) -> bool:
        return any(self._is_before(place, other) for other in self._present)

    def _ended(self, place: Place) -> tuple[int, int]:
        attempt = self._attempts.get(place)
        return (attempt.ended if attempt is not None else 0, place[1])

    def _is_before(self, one: Place, other: Place) -> bool:
        """Whether the one was acknowledged before the other was sent, as far as is known."""
        if one[0] == other[0]:
            return one[1] < other[1]
        first, second = self._attempts.get(one), self._attempts.get(other)
        return first is not None and second is not None and first.ended < second.sent


def _is_among(bounds: dict[int, list[int]], place: Place) -> bool:
    return place[1] in Intervals(bounds.get(place[0], []))
