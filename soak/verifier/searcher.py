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

from soak.model.book import SessionBook, WriterBook
from soak.model.case import Basis, Search, SecondSearch
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.read import Place, Read
from soak.model.saved import save
from soak.model.search import (
    NEAREST,
    Again,
    Fate,
    Missed,
    is_due,
    is_missed,
    is_promised,
    judge_search,
    places_in,
    search_again,
    wide_limit,
)
from soak.model.second_look import Late, times_of
from soak.model.text import Author
from soak.stores.searching import Search as SearchMethod
from soak.verifier.reporter import Reporter
from soak.verifier.tally import STALE_LAG_BUCKETS_SECONDS, StoreTally
from soak.verifier.watched import Watched

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
MISSED_MAX = 16
"""Messages of a session that are looked for again at the same time; it is wrong all over if there are more."""


class Answer(NamedTuple):
    """A later search for something that an earlier one had missed."""

    missed: Missed
    read: Read
    limit: int


class Searcher:
    """Searches the sessions of one store."""

    def __init__(
        self, examiner: Examiner, search: SearchMethod, author: Author, reporter: Reporter, tally: StoreTally
    ) -> None:
        self._examiner = examiner
        self._search = search
        self._author = author
        self._reporter = reporter
        self._tally = tally
        staleness = examiner.rules.contract.staleness_us
        self._final_us = None if staleness is None else examiner.settle_us + staleness

    async def ask_again(self, watched: Watched) -> list[Answer]:
        """Search once more for what is missed, right before the whole read that says whether it is there at all."""
        answers = []
        for missed in watched.missed or ():
            # As many as there are now, for more may have been said since.
            limit = max(missed.limit, wide_limit(watched.book.length))
            read = await self._ask(watched.book, missed.place, limit)
            if read is None:
                break
            answers.append(Answer(missed, read, limit))
        return answers

    async def search(self, watched: Watched, whole: Read, again: Sequence[Answer], wanted: Sequence[Place]) -> None:
        """Conclude what was looked for again, and ask for some more messages."""
        if again and await self._may_judge(watched):
            for answer in again:
                self._conclude(watched, answer, whole)
        shown = places_in(whole, watched.book.session, self._author.run)
        self._reporter.heal_found(watched, lambda place: place not in shown)
        for place in self._choose(watched, wanted):
            if watched.retired or watched.tainted:
                return
            if not await self._look_for(watched, place, whole, is_shown=place in shown):
                return  # whoever does not answer is not asked for more, and holds up no reading

    # -- what to ask for --

    def _choose(self, watched: Watched, wanted: Sequence[Place]) -> list[Place]:
        """Choose what to ask for, by name: the order in which a memory without one shows it is another every time."""
        book, turn = watched.book, watched.searched
        standing, rest = _places_of(book, lambda writer: writer.standing), _places_of(book, _not_standing)
        newest = [(number, writer.standing.largest) for number, writer in enumerate(book.writers) if writer.standing]
        chosen = [place for place in wanted if book.find_writer(place[0]) is not None][:WANTED_MAX]
        turns = min(TURNS_WHEN_CLOSED if book.closed else TURNS_PER_READ, max(TURNS_PER_READ, len(standing)))
        chosen += [standing[(turn + step) % len(standing)] for step in range(turns) if standing]
        reads = turn // TURNS_PER_READ
        chosen += [places[reads % len(places)] for places in (newest, rest, _unfindable(watched)) if places]
        watched.searched = turn + turns
        waiting = {missed.place for missed in watched.missed or ()}
        return [place for place in dict.fromkeys(chosen) if place not in waiting]

    # -- asking --

    async def _ask(self, book: SessionBook, place: Place, limit: int) -> Read | None:
        text = self._author.write(book.session, *place).content
        return await self._examiner.read(book, functools.partial(self._search, book.session, text, limit))

    async def _may_judge(self, watched: Watched) -> bool:
        """Wait until the ledger is known up to now, so that a record still on its way accuses nobody."""
        return await self._examiner.caught_up() and not watched.retired and not watched.tainted

    async def _look_for(self, watched: Watched, place: Place, whole: Read, *, is_shown: bool) -> bool:
        """Ask for one message by its own words, and once more for many if it is not among the nearest.

        Returns False if there was no answer.
        """
        book, rules = watched.book, self._examiner.rules
        asked = self._author.write(book.session, *place)
        near = await self._ask(book, place, NEAREST)
        if near is None:
            return self._note_no_answer(is_shown=is_shown)
        is_odd = bool(judge_search(book, near, place, NEAREST, rules, self._author))
        lacks = is_shown and is_missed(near, asked, NEAREST)
        if not lacks and not is_odd:
            self._note_hit(watched, place, near, is_shown=is_shown)
            return True
        limit = wide_limit(len(whole.items))
        wide = await self._ask(book, place, limit) if lacks else None
        if not await self._may_judge(watched):
            return True
        self._report(watched, near, place, NEAREST)
        if not lacks:
            self._note_hit(watched, place, near, is_shown=is_shown)
            return True
        if wide is None:
            return self._note_no_answer(is_shown=is_shown)
        self._report(watched, wide, place, limit)
        if not is_due(book, place, near, rules) or not is_due(book, place, wide, rules):
            self._tally.searches["not_expected"] += 1
        elif not is_missed(wide, asked, limit):
            self._tally.searches["found_wide"] += 1
            self._heal_if_shown(watched, place, wide)
        elif not is_promised(rules) or place in _unfindable(watched):
            self._tally.searches["not_found"] += 1
        else:
            self._suspect(watched, place, wide, limit)
        return True

    def _note_no_answer(self, *, is_shown: bool) -> bool:
        self._tally.searches["unanswered"] += is_shown
        return False

    def _note_hit(self, watched: Watched, place: Place, read: Read, *, is_shown: bool) -> None:
        self._tally.searches["hit" if is_shown else "not_expected"] += 1
        self._heal_if_shown(watched, place, read)

    def _heal_if_shown(self, watched: Watched, place: Place, read: Read) -> None:
        # An answer of nothing but the same words is none, and shows nothing either.
        if place in places_in(read, watched.book.session, self._author.run):
            self._reporter.heal_found(watched, lambda other: other == place)

    def _suspect(self, watched: Watched, place: Place, wide: Read, limit: int) -> None:
        known = watched.missed or []
        if len(known) >= MISSED_MAX:
            return
        attempt = times_of(watched.book).get(place)
        missed = Missed(
            place=place,
            invoked=wide.invoked,
            returned=wide.returned,
            limit=limit,
            acknowledged=0 if attempt is None else attempt.ended,
            answer=save(wide, watched.book.session, self._author),
        )
        watched.missed = [*known, missed]

    # -- judging --

    def _report(self, watched: Watched, read: Read, asked: Place, limit: int) -> None:
        book = watched.book

        def basis() -> tuple[SessionBook, Basis]:
            return book, Search(read=save(read, book.session, self._author), asked=asked, limit=limit)

        findings = judge_search(book, read, asked, limit, self._examiner.rules, self._author)
        self._reporter.report_findings(self._examiner.context(watched, read, basis), findings)

    def _conclude(self, watched: Watched, answer: Answer, whole: Read) -> None:
        """Hold a later search against what an earlier one missed."""
        book, missed = watched.book, answer.missed
        again = Again(
            book=book,
            missed=missed,
            search=answer.read,
            limit=answer.limit,
            whole=whole,
            rules=self._examiner.rules,
            faults=self._examiner.faults(),
            is_calm=self._examiner.is_calm(),
            final_us=self._final_us,
        )

        def basis() -> tuple[SessionBook, Basis]:
            return book, SecondSearch(
                missed=missed,
                search=save(answer.read, book.session, self._author),
                limit=answer.limit,
                read=save(whole, book.session, self._author),
                final_us=self._final_us,
            )

        self._report(watched, answer.read, missed.place, answer.limit)
        fate, told = search_again(again, self._author)
        if fate is Fate.OPEN:
            return
        watched.missed = [one for one in watched.missed or () if one is not missed] or None
        context = self._examiner.context(watched, whole, basis)
        if fate is Fate.OVER:
            self._tally.searches["not_expected"] += 1
        elif isinstance(told, Late):
            self._tally.searches["found_later"] += 1
            self._tally.stale_lag.observe(told.lag_seconds, STALE_LAG_BUCKETS_SECONDS)
            self._reporter.report_late(context, [told], missed.suspicion())
        elif told is not None:
            self._tally.searches["not_found"] += 1
            self._reporter.report_unfindable(context, told, missed.suspicion())


def _places_of(book: SessionBook, seqs_of: Callable[[WriterBook], Intervals]) -> list[Place]:
    return [(number, seq) for number, writer in enumerate(book.writers) for seq in seqs_of(writer)]


def _not_standing(writer: WriterBook) -> Intervals:
    """Return what was acknowledged and is not in the history: forgotten, expired, lost, or not read yet."""
    return writer.acked.minus(writer.standing)


def _unfindable(watched: Watched) -> list[Place]:
    """Return what is counted as unfindable, and has not been found since."""
    counted = watched.counted.open_places(Kind.UNFINDABLE) if watched.counted is not None else {}
    return [(number, seq) for number, seqs in counted.items() for seq in seqs]
