"""Searching a session for its own messages, in a store that can: what is in its history has to be found.

Behind every whole read a few messages are asked for by their own words: the newest, the next ones in turn, so that in
time each is asked for, one that is forgotten or gone, and what a participant did not find. What a wide search lacks is
looked for again after the settle time: first by a search, then by the whole read that has to show it.

A search that raises is unavailability, and no violation. It does not hold up the reading.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from soak.checker.case import SearchRead, SecondSearch
from soak.checker.expected_session import ExpectedSession, WriterBook
from soak.checker.incidents import Missed
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.partial import (
    NEAREST,
    SearchFate,
    WideSearch,
    is_missed,
    judge_search,
    places_in,
    wide_limit,
)
from soak.checker.read import MessageId, Read
from soak.checker.text import MessageGenerator
from soak.stores.protocol import Search as SearchMethod
from soak.verifier.reporter import Reporter
from soak.verifier.tally import StoreTally
from soak.verifier.tracked_session import TrackedSession

if TYPE_CHECKING:
    from soak.verifier.examiner import Examiner

TURNS_PER_READ = 4
"""Messages asked for in turn behind each whole read."""
TURNS_WHEN_CLOSED = 32
"""The same in a session that is over: it is not read often any more."""
SEARCHES_PER_READ = TURNS_PER_READ + 2
"""All that are usually asked for: those, the newest, and one that is gone."""
WANTED_MAX = 4
"""Messages asked for because a participant did not find them, at most, behind one read."""


class RepeatedSearch(NamedTuple):
    """A later search for something that an earlier one had missed."""

    missed: Missed
    read: Read
    limit: int


class Searcher:
    """Searches the sessions of one store."""

    def __init__(
        self, examiner: Examiner, search: SearchMethod, author: MessageGenerator, reporter: Reporter, tally: StoreTally
    ) -> None:
        self._examiner = examiner
        self._search = search
        self._author = author
        self._reporter = reporter
        self._tally = tally

    async def ask_again(self, tracked: TrackedSession) -> list[RepeatedSearch]:
        """Search once more for what is missed, right before the whole read that says whether it is there at all."""
        answers = []
        for missed in tracked.book.missed or ():
            # As many as there are now, for more may have been said since.
            limit = max(missed.limit, wide_limit(tracked.book.length))
            read = await self._ask(tracked, missed.place, limit)
            if read is None:
                break
            answers.append(RepeatedSearch(missed, read, limit))
        return answers

    async def search(
        self, tracked: TrackedSession, whole: Read, again: Sequence[RepeatedSearch], wanted: Sequence[MessageId]
    ) -> None:
        """Conclude what was looked for again, and ask for some more messages."""
        if again and await self._may_judge(tracked):
            for answer in again:
                self._apply_repeated(tracked, answer, whole)
        shown = places_in(whole, tracked.book.session, self._author.run)
        self._heal(tracked, whole, lambda place: place not in shown)
        for place in self._choose(tracked, wanted):
            if tracked.retired or tracked.tainted:
                return
            if not await self._look_for(tracked, place, whole, is_shown=place in shown):
                return  # whoever does not answer is not asked for more, and holds up no reading

    # -- what to ask for --

    def _choose(self, tracked: TrackedSession, wanted: Sequence[MessageId]) -> list[MessageId]:
        """Choose what to ask for, by name: the order in which a memory without one shows it is another every time."""
        book, turn = tracked.book, tracked.book.searched
        standing, rest = _places_of(book, lambda writer: writer.standing), _places_of(book, _not_standing)
        newest = [(number, writer.standing.largest) for number, writer in enumerate(book.writers) if writer.standing]
        chosen = [place for place in wanted if book.find_writer(place[0]) is not None][:WANTED_MAX]
        turns = min(TURNS_WHEN_CLOSED if book.closed else TURNS_PER_READ, max(TURNS_PER_READ, len(standing)))
        chosen += [standing[(turn + step) % len(standing)] for step in range(turns) if standing]
        reads = turn // TURNS_PER_READ
        chosen += [places[reads % len(places)] for places in (newest, rest, _unfindable(tracked)) if places]
        book.searched = turn + turns
        waiting = {missed.place for missed in book.missed or ()}
        return [place for place in dict.fromkeys(chosen) if place not in waiting]

    # -- asking --

    async def _ask(self, tracked: TrackedSession, place: MessageId, limit: int) -> Read | None:
        session = tracked.book.session
        text = self._author.write(session, *place).content
        return await self._examiner.read(
            tracked, functools.partial(self._search, session, text, limit), method="search"
        )

    async def _may_judge(self, tracked: TrackedSession) -> bool:
        """Wait until the ledger is known up to now, so that a record still on its way accuses nobody."""
        return await self._examiner.caught_up() and not tracked.retired and not tracked.tainted

    async def _look_for(self, tracked: TrackedSession, place: MessageId, whole: Read, *, is_shown: bool) -> bool:
        """Ask for one message by its own words, and once more for many if it is not among the nearest.

        Returns False if there was no answer.
        """
        book, rules = tracked.book, self._examiner.rules
        asked = self._author.write(book.session, *place)
        near = await self._ask(tracked, place, NEAREST)
        if near is None:
            return self._note_no_answer(is_shown=is_shown)
        is_odd = bool(judge_search(book, near, place, NEAREST, rules, self._author))
        lacks = is_shown and is_missed(near, asked, NEAREST)
        if not lacks and not is_odd:
            self._note_hit(tracked, place, near, is_shown=is_shown)
            return True
        limit = wide_limit(len(whole.items))
        wide = await self._ask(tracked, place, limit) if lacks else None
        if not await self._may_judge(tracked):
            return True
        self._report(tracked, near, place, NEAREST)
        if not lacks:
            self._note_hit(tracked, place, near, is_shown=is_shown)
            return True
        if wide is None:
            return self._note_no_answer(is_shown=is_shown)
        self._report(tracked, wide, place, limit)
        found = self._examiner.checker(tracked).observe_wide_search(place, near, wide, limit)
        if found is not WideSearch.SUSPECTED:
            self._tally.searches[found.value] += 1
        if found is WideSearch.FOUND:
            self._heal_if_shown(tracked, place, wide)
        return True

    def _note_no_answer(self, *, is_shown: bool) -> bool:
        self._tally.searches["unanswered"] += is_shown
        return False

    def _note_hit(self, tracked: TrackedSession, place: MessageId, read: Read, *, is_shown: bool) -> None:
        self._tally.searches["hit" if is_shown else "not_expected"] += 1
        self._heal_if_shown(tracked, place, read)

    def _heal_if_shown(self, tracked: TrackedSession, place: MessageId, read: Read) -> None:
        # An answer of nothing but the same words is none, and shows nothing either.
        if place in places_in(read, tracked.book.session, self._author.run):
            self._heal(tracked, read, lambda other: other == place)

    def _heal(self, tracked: TrackedSession, read: Read, is_over: Callable[[MessageId], bool]) -> None:
        self._examiner.report(tracked, read, self._examiner.checker(tracked).found_by_search(is_over))

    # -- judging --

    def _report(self, tracked: TrackedSession, read: Read, asked: MessageId, limit: int) -> None:
        observed = self._examiner.checker(tracked).observe_search(read, asked, limit)
        kept = functools.partial(self._examiner.saved, tracked, read)
        self._examiner.report(tracked, read, observed, lambda: SearchRead(read=kept(), asked=asked, limit=limit))

    def _apply_repeated(self, tracked: TrackedSession, answer: RepeatedSearch, whole: Read) -> None:
        """Hold a later search against what an earlier one missed."""
        missed, saved = answer.missed, functools.partial(self._examiner.saved, tracked)
        self._report(tracked, answer.read, missed.place, answer.limit)
        checker = self._examiner.checker(tracked)
        fate, observed = checker.observe_search_again(missed, answer.read, answer.limit, whole)

        def basis() -> SecondSearch:
            return SecondSearch(missed=missed, search=saved(answer.read), limit=answer.limit, read=saved(whole))

        self._examiner.report(tracked, whole, observed, basis)
        result = {
            SearchFate.OVER: "not_expected",
            SearchFate.FOUND: "found_later",
            SearchFate.UNFINDABLE: "not_found",
        }.get(fate)
        if result is not None:
            self._tally.searches[result] += 1


def _places_of(book: ExpectedSession, seqs_of: Callable[[WriterBook], Intervals]) -> list[MessageId]:
    return [(number, seq) for number, writer in enumerate(book.writers) for seq in seqs_of(writer)]


def _not_standing(writer: WriterBook) -> Intervals:
    """Return what was acknowledged and is not in the history: forgotten, expired, lost, or not read yet."""
    return writer.acked.minus(writer.standing)


def _unfindable(tracked: TrackedSession) -> list[MessageId]:
    """Return what is counted as unfindable, and has not been found since."""
    counted = tracked.counted.open_places(Kind.UNFINDABLE) if tracked.counted is not None else {}
    return [(number, seq) for number, seqs in counted.items() for seq in seqs]
