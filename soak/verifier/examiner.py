"""Reading one session and handing what it shows to the checker: its end, all of it, and what others saw of it.

Per session one read is under way at a time. A read of the end that joins on to the verified part without a seam is
enough; anything odd leads to a full read. What a full read shows wrong is judged once the ledger has been followed up
to after the read, so that a record still on its way accuses nobody.
"""

from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from soak.checker.case import FullRead, Participation, SearchRead, TailRead
from soak.checker.events import Observed, Want
from soak.checker.intervals import Intervals
from soak.checker.message import Garbled, Message, Stored, shown
from soak.checker.read import MessageId, Read, Rules, SavedRead, save
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.ledger.records import LATENCY_BUCKETS_SECONDS, Observation, SeenItem
from soak.store_errors import describe
from soak.stores.protocol import EndsOf, MemoryStore, ReadsEnds, search_of
from soak.verifier.reporter import Basis, Reporter
from soak.verifier.searcher import SEARCHES_PER_READ, Searcher
from soak.verifier.state import State
from soak.verifier.tally import StoreTally
from soak.verifier.tracked_session import TrackedSession

_log = structlog.get_logger()


class _LastTime:
    """When something last happened to one session, and when to another."""

    def __init__(self) -> None:
        self._last: tuple[int, TrackedSession | None] = (0, None)
        self._before: tuple[int, TrackedSession | None] = (0, None)

    def note(self, tracked: TrackedSession, at: int) -> None:
        if self._last[1] is not tracked:
            self._before = self._last
        self._last = (at, tracked)

    def beside(self, tracked: TrackedSession) -> tuple[int, TrackedSession | None]:
        """Return when it last happened to another session than this one, and which; 0: never."""
        return self._before if self._last[1] is tracked else self._last


class _AskedEnd(NamedTuple):
    """A session whose end is read, how much of it, and what is known as acknowledged before."""

    tracked: TrackedSession
    last: int
    acked: dict[int, Intervals]


class OddEnd(NamedTuple):
    """An end that does not look right: a read of all is due, and nobody else reads the session until then."""

    tracked: TrackedSession
    tail: Read
    last: int


class ExaminedEnds(NamedTuple):
    """What came of reading the ends of several sessions."""

    answered: list[TrackedSession]
    unanswered: list[TrackedSession]
    odd: list[OddEnd]
    others: list[TrackedSession]
    """Not read: another read than that of their end is due."""


MESSAGES_AT_ONCE_MAX = 2_000
"""So many are judged before the others of this process have their turn."""


class Examiner:
    """Reads and judges the sessions of one store."""

    def __init__(
        self,
        *,
        name: str,
        store: MemoryStore,
        targets: tuple[str, ...],
        rules: Rules,
        author: MessageGenerator,
        state: State,
        reporter: Reporter,
        settle_seconds: float,
        hot_seconds: float,
        timeout_seconds: float,
        caught_up: Callable[[], Awaitable[bool]],
    ) -> None:
        self.name = name
        self.store = store
        self.targets = targets
        self._author = author
        self._state = state
        self._tally = state.tally.stores[name]
        self._lane = state.lanes[name]
        self._reporter = reporter
        self._settle_us = int(settle_seconds * 1e6)
        self._hot_us = int(hot_seconds * 1e6)
        self._timeout = timeout_seconds
        self.caught_up = caught_up
        self._primary_history = getattr(store, "primary_history", None)
        self._ends: EndsOf | None = store.ends if isinstance(store, ReadsEnds) else None
        self.judging = StoreJudging(
            rules=rules,
            author=author,
            faults=state.faults,
            targets=targets,
            settle_us=self._settle_us,
            asks_primary=self._primary_history is not None,
            reads_replica=self._primary_history is not None,
        )
        search = search_of(store)
        self._searcher = None if search is None else Searcher(self, search, author, reporter, self._tally)
        self._answered = _LastTime()
        self._failed = _LastTime()

    @property
    def rules(self) -> Rules:
        return self.judging.rules

    def for_canaries(self) -> Examiner:
        """Return the same examiner with counts of its own: what is read of a canary is none of the run's messages."""
        twin = copy.copy(self)
        twin._tally = StoreTally()  # noqa: SLF001  it is of our own kind
        # No interface of a store takes something out of its search and leaves it in its history: there is no canary
        # for that, and the search of a canary would only be the same once more.
        twin._searcher = None  # noqa: SLF001
        return twin

    @property
    def searches_per_read(self) -> int:
        """How many searches come with each whole read; 0: the store cannot be searched."""
        return 0 if self._searcher is None else SEARCHES_PER_READ

    def checker(self, tracked: TrackedSession) -> SessionChecker:
        return SessionChecker(self.judging, tracked.book)

    async def examine(self, tracked: TrackedSession, *, whole: bool) -> bool:
        """Read a session and judge it; returns False if the store gave no answer."""
        if tracked.busy or tracked.retired or tracked.tainted:
            return True
        tracked.busy = True
        try:
            wanted = None if whole or tracked in self._lane.observations else self.checker(tracked).wants(now_us())
            if wanted is not None and wanted.want is Want.TAIL and wanted.last is not None:
                return await self._read_tail(tracked, wanted.last)
            again = [] if self._searcher is None else await self._searcher.ask_again(tracked)
            read = await self._read_full(tracked)
            if read is None:
                return False
            asked = self._judge_observations(tracked, read)
            if self._searcher is not None:
                await self._searcher.search(tracked, read, again, asked)
            return True
        finally:
            tracked.busy = False
            self._requeue(tracked)

    def _requeue(self, tracked: TrackedSession) -> None:
        """Put a session that still has something to verify back into the line, or plan the read that confirms."""
        lane, now = self._lane, now_us()
        lane.reading.pop(tracked, None)
        lane.hot.pop(tracked, None)
        lane.suspicious.pop(tracked, None)
        tracked.hot = False
        tracked.not_before = 0
        if tracked.retired or tracked.tainted:
            return
        wanted = self.checker(tracked).wants(now)
        if wanted is not None and wanted.want in {Want.CONFIRM, Want.SEARCH}:
            lane.suspicious[tracked] = None
            lane.schedule_read(tracked, wanted.at)
        elif tracked.book.pending:
            tracked.hot = True
            tracked.not_before = now + self._hot_us
            lane.hot[tracked] = None

    # -- the ends of several sessions --

    @property
    def reads_ends(self) -> bool:
        """Whether the ends of several sessions can be read together."""
        return self._ends is not None

    def wants_end(self, tracked: TrackedSession) -> bool:
        """Whether a read of its end is what a session needs that has something to verify."""
        book = tracked.book
        is_usual = book.length > 0 and book.forgets is None and not book.is_in_doubt
        return is_usual and tracked not in self._lane.observations

    async def examine_ends(self, sessions: Sequence[TrackedSession]) -> ExaminedEnds:
        """Read the ends of several sessions together and judge each, without waiting for anything else."""
        examined = ExaminedEnds([], [], [], [])
        asked: list[_AskedEnd] = []
        now = now_us()
        for tracked in sessions:
            if tracked.busy or tracked.retired or tracked.tainted:
                examined.answered.append(tracked)
                continue
            wanted = self.checker(tracked).wants(now) if self.wants_end(tracked) else None
            if wanted is not None and wanted.want is Want.TAIL and wanted.last is not None:
                asked.append(_AskedEnd(tracked, wanted.last, tracked.book.acked_now()))
                tracked.busy = True
            else:
                examined.others.append(tracked)
        try:
            if asked and self._ends is not None:
                await self._read_ends(self._ends, asked, examined)
        finally:
            odd = {one.tracked for one in examined.odd}
            for one in asked:
                if one.tracked not in odd:
                    one.tracked.busy = False
                    self._requeue(one.tracked)
        return examined

    async def _read_ends(self, ends: EndsOf, asked: Sequence[_AskedEnd], examined: ExaminedEnds) -> None:
        invoked = now_us()
        answers: Sequence[Sequence[Stored] | BaseException]
        try:
            async with asyncio.timeout(self._timeout):
                answers = await ends([(one.tracked.book.session, one.last) for one in asked])
        except Exception as error:  # noqa: BLE001  as for a single read
            answers = [error] * len(asked)
        returned = now_us()
        messages = answered = since_pause = 0
        for one, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                given_up = TimeoutError("the read was given up")
                failure = answer if isinstance(answer, Exception) else given_up
                self._note_failure(one.tracked, invoked, failure, "history")
                examined.unanswered.append(one.tracked)
                continue
            self._answered.note(one.tracked, returned)
            answered += 1
            messages += len(answer)
            since_pause += len(answer)
            if since_pause > MESSAGES_AT_ONCE_MAX:
                since_pause = 0
                await asyncio.sleep(0)
            tail = Read(invoked=invoked, returned=returned, acked=one.acked, items=answer)
            is_over = one.tracked.retired or one.tracked.tainted
            observed = None if is_over else self.checker(one.tracked).observe_tail(tail, one.last)
            if observed is not None:
                self.report(one.tracked, tail, observed)
            elif not is_over:
                examined.odd.append(OddEnd(one.tracked, tail, one.last))
                continue
            examined.answered.append(one.tracked)
        self._tally.latency["sweep"].observe((returned - invoked) / 1e6, LATENCY_BUCKETS_SECONDS, answered)
        self._tally.messages_read += messages

    async def explain_end(self, odd: OddEnd) -> bool:
        """Judge an odd end that was read together with others; returns False if the store gave no answer."""
        try:
            return await self._explain_end(odd.tracked, odd.tail, odd.last)
        finally:
            odd.tracked.busy = False
            self._requeue(odd.tracked)

    # -- the end of a session --

    async def _read_tail(self, tracked: TrackedSession, last: int) -> bool:
        book = tracked.book
        tail = await self.read(tracked, lambda: self.store.history(book.session, last))
        if tail is None:
            return False
        observed = self.checker(tracked).observe_tail(tail, last)
        if observed is not None:
            self.report(tracked, tail, observed)
            return True
        return await self._explain_end(tracked, tail, last)

    async def _explain_end(self, tracked: TrackedSession, tail: Read, last: int) -> bool:
        """Judge an odd read of the end by a read of all; returns False if the store gave no answer."""
        if await self._read_full(tracked) is None:
            return False
        observed = self.checker(tracked).observe_tail_by_full(tail, last)
        self.report(tracked, tail, observed, lambda: TailRead(read=self.saved(tracked, tail), last=last))
        return True

    # -- all of it --

    async def _read_full(self, tracked: TrackedSession) -> Read | None:
        book = tracked.book
        read = await self.read(tracked, lambda: self.store.history(book.session))
        if read is None or tracked.retired or tracked.tainted:
            return None
        checker = self.checker(tracked)
        primary: Read | None = None
        judged = None if book.is_in_doubt else checker.judge_clean(read)
        if judged is None:
            if checker.needs_primary(read) and self._primary_history is not None:
                primary = await self.read(tracked, functools.partial(self._primary_history, book.session))
            if not await self.caught_up() or tracked.retired or tracked.tainted:
                return None
        # Nothing is awaited from here on: a checkpoint must know either nothing of this read, or all of it.
        if self._state.recorder is not None:
            is_shadowed = self.judging.is_shadowed(read.invoked, read.returned)
            self._state.recorder.note_read(tracked, read, is_shadowed=is_shadowed)
        observed = checker.observe(read, primary, judged)

        def basis() -> Basis:
            return FullRead(
                read=self.saved(tracked, read), primary=None if primary is None else self.saved(tracked, primary)
            )

        self.report(tracked, read, observed, basis)
        return read

    def saved(self, tracked: TrackedSession, read: Read) -> SavedRead:
        """Return the form of a read that is kept as evidence."""
        return save(read, tracked.book.session, self._author)

    def report(
        self, tracked: TrackedSession, read: Read, observed: Observed, basis: Callable[[], Basis] | None = None
    ) -> None:
        """Count and report what a read came to."""
        self._reporter.report(tracked, self.judging, read, observed, basis, self._tally)

    async def read(
        self, tracked: TrackedSession, ask: Callable[[], Awaitable[Sequence[Stored]]], *, method: str = "history"
    ) -> Read | None:
        """Wait for a read; None if the store gave no answer, which is unavailability unless only this one raises."""
        acked = tracked.book.acked_now()
        invoked = now_us()
        try:
            async with asyncio.timeout(self._timeout):
                items = await ask()
        except Exception as error:  # noqa: BLE001  a user's store may raise anything
            self._note_failure(tracked, invoked, error, method)
            return None
        if not isinstance(items, list | tuple):
            # A store of the user's may answer with anything; what is no list is one thing that is no message.
            items = [Garbled(shown(items), f"a {type(items).__name__}, no history")]
        returned = now_us()
        self._answered.note(tracked, returned)
        self._tally.latency["sweep"].observe((returned - invoked) / 1e6, LATENCY_BUCKETS_SECONDS)
        self._tally.messages_read += len(items)
        return Read(invoked=invoked, returned=returned, acked=acked, items=items)

    # -- who is answered, and who is not --

    def _note_failure(self, tracked: TrackedSession, invoked: int, error: Exception, method: str) -> None:
        """Take in that a read raised: if it does so again and again and only here, that is what is wrong."""
        returned = now_us()
        self._tally.errors["sweep"] += 1
        self._state.tally.note_exception(self.name, method, error)
        self._lane.troubles.append(returned)
        text = describe(error)
        _log.debug("store_read_failed", store=self.name, session=tracked.book.session, error=text)
        if method == "search":
            return  # it does not hold up the reading, and says nothing about it
        if getattr(error, "of_server", False):
            return  # it never left, or sessions on other servers are answered: this one is not to blame
        others, _ = self._answered.beside(tracked)
        self._failed.note(tracked, returned)
        failing = tracked.book.failing
        if failing is not None and failing.last > max(others, self._failed.beside(tracked)[0]):
            return  # nobody else was asked since it failed last, so it says nothing new
        observed = self.checker(tracked).observe_failure(invoked, returned, text, others_answered=others)
        if observed.events:
            read = Read(invoked=invoked, returned=returned, acked={}, items=[])
            kept = self.saved(tracked, read)
            self.report(tracked, read, observed, lambda: FullRead(read=kept, error=text, others_answered=others))

    def answered_beside(self, tracked: TrackedSession) -> TrackedSession | None:
        """Return the other session that was answered last; None: none was, or it is not kept any more."""
        _, other = self._answered.beside(tracked)
        return None if other is None or other.retired else other

    # -- what the participants saw --

    def _judge_observations(self, tracked: TrackedSession, read: Read) -> list[MessageId]:
        """Judge what participants saw by a full read that came after it; returns what they did not find."""
        noted = self._lane.observations.pop(tracked, [])
        later = [observation for observation in noted if observation.returned > read.invoked]
        if later:
            self._lane.observations[tracked] = later
        judged = [observation for observation in noted if observation.returned <= read.invoked]
        for observation in judged:
            self._judge_observation(tracked, observation)
        return [observation.asked for observation in judged if observation.asked is not None]

    def _judge_observation(self, tracked: TrackedSession, observation: Observation) -> None:
        """Judge what a participant saw; what its search did not find is looked for once more."""
        items = [_restore(item, self._author) for item in observation.items]
        seen = Read(invoked=observation.invoked, returned=observation.returned, acked={}, items=items)
        checker, asked, last = self.checker(tracked), observation.asked, observation.last

        def basis() -> Basis:
            kept = self.saved(tracked, seen)
            if asked is not None:
                return SearchRead(read=kept, asked=asked, limit=last or 0)
            return Participation(read=kept, last=last, acked=observation.acked)

        if asked is not None:
            observed = checker.observe_search(seen, asked, last or 0)
        else:
            observed = checker.observe_participant(seen, last, observation.acked)
        self.report(tracked, seen, observed, basis)


def _restore(item: SeenItem, author: MessageGenerator) -> Stored:
    """Return what a participant saw; what was as written is written again, the rest was kept as it came."""
    if item.raw is None:
        return author.write(item.session, item.writer, item.seq)
    try:
        return Message.from_bytes(item.raw)
    except ValueError:
        return Garbled(raw=item.raw, reason=item.problem or "no message")
