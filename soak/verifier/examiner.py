"""Reading one session and coming to a judgement: a glance at its tail, a study of the whole, a second look.

Per session one read is under way at a time. A glance that joins on to the verified part without a seam is enough;
anything odd leads to a study. What a study finds wrong is reported once the ledger has been followed up to after the
read, so that a record still on its way accuses nobody. What it lacks becomes a suspicion, and is looked at again.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from soak.ledger.records import LATENCY_BUCKETS_SECONDS, Observation, SeenItem
from soak.model.absence import Seqs, Suspicion, suspect
from soak.model.absorb import absorb
from soak.model.book import SessionBook
from soak.model.case import Basis, Glance, Participation, Search, SecondLook, Study, copied
from soak.model.faults import FaultWindow
from soak.model.intervals import Intervals
from soak.model.judge import judge, judge_tail
from soak.model.kinds import Kind
from soak.model.message import Garbled, Message, Stored, shown
from soak.model.outcome import Outcome
from soak.model.partial import Seen, judge_glance, judge_seen
from soak.model.read import Judgement, Place, Read, Rules
from soak.model.remembered import EXACT_SECONDS, EXACT_US, SLOT_SECONDS
from soak.model.saved import save
from soak.model.search import judge_search
from soak.model.second_look import Late, Look, is_calm, is_last_word, lacks_still, look_again, untold
from soak.model.text import Author
from soak.stores.protocol import MemoryStore
from soak.stores.searching import search_of
from soak.verifier.reporter import Context, Reporter
from soak.verifier.searcher import SEARCHES_PER_READ, Searcher
from soak.verifier.state import State
from soak.verifier.tally import STALE_LAG_BUCKETS_SECONDS, StoreTally
from soak.verifier.watched import Watched

_log = structlog.get_logger()

GLANCE_OVERLAP = 2
REMEMBER_SECONDS_MIN = 10.0
REMEMBER_IN_DOUBT_US = 86_400_000_000


class Examiner:
    """Reads and judges the sessions of one store."""

    def __init__(
        self,
        *,
        name: str,
        store: MemoryStore,
        targets: tuple[str, ...],
        rules: Rules,
        author: Author,
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
        self.rules = rules
        self._author = author
        self._state = state
        self._tally = state.tally.stores[name]
        self._lane = state.lanes[name]
        self._reporter = reporter
        self._settle_us = int(settle_seconds * 1e6)
        self._final_us: int | None = self._settle_us
        """How long after a read that lacked something a second one is the last word; None: it never is."""
        if getattr(store, "primary_history", None) is None:
            staleness = rules.contract.staleness_us
            self._final_us = None if staleness is None else self._settle_us + staleness
        self._hot_us = int(hot_seconds * 1e6)
        self._timeout = timeout_seconds
        self.caught_up = caught_up
        self._primary_history = getattr(store, "primary_history", None)
        search = search_of(store)
        self._searcher = None if search is None else Searcher(self, search, author, reporter, self._tally)
        self._stores_on = {t: [name for name, needs in state.targets.items() if t in needs] for t in targets}
        loss = max(rules.contract.crash_loss_seconds or 0.0, rules.contract.power_loss_seconds or 0.0)
        # Where times are thinned out, the first of a slot is needed for as long as any in it may be taken.
        slot = SLOT_SECONDS if loss > EXACT_SECONDS else 0.0
        self._remember_us = int((loss + slot + REMEMBER_SECONDS_MIN) * 1e6)

    def for_canaries(self) -> Examiner:
        """Return the same examiner with counts of its own: what is read of a canary is none of the run's messages."""
        twin = copy.copy(self)
        twin._tally = StoreTally()  # noqa: SLF001  it is of our own kind
        # No interface of a store takes something out of its search and leaves it in its history: there is no canary
        # for that, and the search of a canary would only be the same once more.
        twin._searcher = None  # noqa: SLF001
        return twin

    @property
    def settle_us(self) -> int:
        return self._settle_us

    @property
    def searches_per_read(self) -> int:
        """How many searches come with each whole read; 0: the store cannot be searched."""
        return 0 if self._searcher is None else SEARCHES_PER_READ

    async def examine(self, watched: Watched, *, whole: bool) -> bool:
        """Read a session and judge it; returns False if the store gave no answer."""
        if watched.busy or watched.retired or watched.tainted:
            return True
        watched.busy = True
        try:
            if not whole and self._may_glance(watched):
                return await self._glance(watched)
            again = [] if self._searcher is None else await self._searcher.ask_again(watched)
            read = await self._study(watched)
            if read is None:
                return False
            wanted = self._judge_observations(watched, read)
            if self._searcher is not None:
                await self._searcher.search(watched, read, again, wanted)
            return True
        finally:
            watched.busy = False
            self._warm(watched)

    def _warm(self, watched: Watched) -> None:
        """Put a session that still has something to verify back into the line, or into the diary for a second look."""
        lane, now = self._lane, now_us()
        lane.reading.pop(watched, None)
        lane.hot.pop(watched, None)
        lane.suspicious.pop(watched, None)
        watched.hot = False
        watched.not_before = 0
        if watched.retired or watched.tainted:
            return
        if watched.is_in_doubt:
            lane.suspicious[watched] = None
            lane.plan_visit(watched, now + self._settle_us)
        elif watched.book.pending:
            watched.hot = True
            watched.not_before = now + self._hot_us
            lane.hot[watched] = None

    # -- a glance at the tail --

    def _may_glance(self, watched: Watched) -> bool:
        book = watched.book
        if watched.is_in_doubt or watched in self._lane.observations:
            return False
        return bool(book.length) and book.forgetting is None

    async def _glance(self, watched: Watched) -> bool:
        book = watched.book
        last = len(book.pending) + len(book.writers) + GLANCE_OVERLAP
        read = await self.read(book, lambda: self.store.history(book.session, last))
        if read is None:
            return False
        judgement = judge_tail(book, read, last, self.rules, self._author)
        if judgement is not None:
            self._absorb(watched, judgement, read, whole=False)
            return True
        if await self._study(watched) is None:
            return False
        self._judge_against_whole(watched, read, last)
        return True

    def _judge_against_whole(self, watched: Watched, tail: Read, last: int) -> None:
        """Ask whether what a glance showed could have been the end of the session as a study has shown it since."""
        book = watched.book

        def basis() -> tuple[SessionBook, Basis]:
            return book, Glance(read=save(tail, book.session, self._author), last=last)

        self._report_seen(self.context(watched, tail, basis), judge_glance(book, tail, last, self.rules))

    # -- a study of the whole --

    async def _study(self, watched: Watched) -> Read | None:
        book = watched.book
        read = await self.read(book, lambda: self.store.history(book.session))
        if read is None or watched.retired or watched.tainted:
            return None
        judgement = judge(book, read, self.rules, self._author)
        primary: Read | None = None
        if not judgement.is_clean:
            primary = await self._ask_primary(watched, read, judgement)
            if not await self.caught_up() or watched.retired or watched.tainted:
                return None
            judgement = judge(book, read, self.rules, self._author)
        # Nothing is awaited from here on: a checkpoint must know either nothing of this read, or all of it.
        self._conclude(watched, read, primary, judgement)
        return read

    def _conclude(self, watched: Watched, read: Read, primary: Read | None, judgement: Judgement) -> None:
        """Report what a whole read shows, take it into the book, and hold it against what earlier ones lacked."""
        book, known = watched.book, watched.suspicions or []
        if self._state.recorder is not None:
            self._state.recorder.note_read(watched, read)
        opened = self._suspect(watched, read, judgement)
        told = told_of(watched) if judgement.findings else {}
        findings = untold(judgement.findings, told)
        if findings:

            def basis() -> tuple[SessionBook, Basis]:
                return book, Study(read=save(read, book.session, self._author), told=told)

            self._reporter.report_findings(self.context(watched, read, basis), findings)
        before = _copied(book) if known else book
        self._absorb(watched, judgement, read, whole=True)
        watched.last_whole = read.invoked
        if not watched.canary:  # one that is spoiled is written anew: when it was sent proves nothing
            self._note_survivors(book, read)
        if opened is not None:
            watched.suspicions = [*known, opened]
        if known:
            self._review(watched, known, self._look(before, read, judgement, primary))
        self._reporter.heal(watched)

    def _suspect(self, watched: Watched, read: Read, judgement: Judgement) -> Suspicion | None:
        """Open a suspicion for what is missing, with the read that lacked it."""
        book = watched.book
        opened = suspect(book, judgement.absent, read, watched.suspicions or [], last_seen=watched.last_whole)
        if opened is not None:
            opened.shown, opened.before = save(read, book.session, self._author), book.order
        return opened

    def context(self, watched: Watched, read: Read, basis: Callable[[], tuple[SessionBook, Basis]]) -> Context:
        """Return what a violation is reported with."""
        return Context(watched=watched, rules=self.rules, read=read, targets=self.targets, basis=functools.cache(basis))

    def _absorb(self, watched: Watched, judgement: Judgement, read: Read, *, whole: bool) -> None:
        book = watched.book
        seen = [(number, seq) for number, seq in judgement.fresh if seq not in book.writers[number].acked]
        if seen:
            self._state.recovery_times.surfaced(book, seen)
        # As long as a fault may have taken something that is not confirmed yet, its times are needed.
        is_in_doubt = watched.is_in_doubt or not self.is_calm()
        remember_us = REMEMBER_IN_DOUBT_US if is_in_doubt else self._remember_us
        exact_us = None if is_in_doubt else EXACT_US
        absorbed = absorb(
            book,
            judgement,
            read,
            remember_us=remember_us,
            exact_us=exact_us,
            staleness_us=self.rules.contract.staleness_us,
            whole=whole,
        )
        self._tally.verified += absorbed.verified
        self._tally.surfaced += len(seen)
        self._tally.released += absorbed.released

    async def read(self, book: SessionBook, ask: Callable[[], Awaitable[Sequence[Stored]]]) -> Read | None:
        """Wait for a read; None if the store gave no answer, which is unavailability and no violation."""
        acked = book.acked_now()
        invoked = now_us()
        try:
            async with asyncio.timeout(self._timeout):
                items = await ask()
        except Exception as error:  # noqa: BLE001  a user's store may raise anything
            self._tally.errors["sweep"] += 1
            self._lane.troubles.append(now_us())
            _log.debug("store gave no answer", store=self.name, session=book.session, error=str(error))
            return None
        if not isinstance(items, list | tuple):
            # A store of the user's may answer with anything; what is no list is one thing that is no message.
            items = [Garbled(shown(items), f"a {type(items).__name__}, no history")]
        returned = now_us()
        self._tally.latency["sweep"].observe((returned - invoked) / 1e6, LATENCY_BUCKETS_SECONDS)
        self._tally.messages_read += len(items)
        return Read(invoked=invoked, returned=returned, acked=acked, items=items)

    # -- the second look --

    def _look(self, before: SessionBook, read: Read, judgement: Judgement, primary: Read | None) -> Look:
        return Look(
            book=before,
            read=read,
            judgement=judgement,
            primary=primary,
            run=self._author.run,
            rules=self.rules,
            faults=self.faults(),
            is_calm=self.is_calm(),
            final_us=self._final_us,
            asks_primary=self._primary_history is not None,
        )

    def _review(self, watched: Watched, known: list[Suspicion], look: Look) -> None:
        """Hold a new read against what earlier ones lacked."""
        for suspicion in known:
            asked = copied(suspicion)
            looked = look_again(look, suspicion)
            context = self.context(watched, look.read, functools.partial(self._second_look, look, asked))
            self._tally.tolerated += self._reporter.report_loss(context, looked.lost, asked)
            self._observe_lags(looked.late)
            self._reporter.report_late(context, looked.late, asked)
        watched.book.drop_excused()
        watched.suspicions = [suspicion for suspicion in watched.suspicions or () if not suspicion.is_over] or None

    def _second_look(self, look: Look, suspicion: Suspicion) -> tuple[SessionBook, Basis]:
        session, primary = look.book.session, look.primary
        return look.book, SecondLook(
            suspicion=suspicion,
            read=save(look.read, session, self._author),
            primary=None if primary is None else save(primary, session, self._author),
            asks_primary=look.asks_primary,
            final_us=look.final_us,
        )

    async def _ask_primary(self, watched: Watched, read: Read, judgement: Judgement) -> Read | None:
        """Ask the primary, where reads may be behind it, for what is about to be called lost."""
        if self._primary_history is None:
            return None
        look = self._look(watched.book, read, judgement, None)._replace(asks_primary=False)
        if not any(lacks_still(one, judgement) and is_last_word(look, one) for one in watched.suspicions or ()):
            return None
        return await self.read(watched.book, functools.partial(self._primary_history, watched.book.session))

    def faults(self) -> list[FaultWindow]:
        """Return the faults of the servers that the store depends on."""
        return [window for window in self._state.faults.values() if window.target in self.targets]

    def is_calm(self) -> bool:
        """Whether no fault is active on the servers, and what one may have taken has been looked for everywhere."""
        return is_calm(self.faults(), self._stores_on)

    def _note_survivors(self, book: SessionBook, read: Read) -> None:
        """Remember how late something was sent that survived a fault: nothing before it may be missing."""
        for window in self._state.faults.values():
            if window.ended is None or window.target not in self.targets or read.invoked < window.ended:
                continue
            if self._state.is_swept(window):
                continue
            sent = [
                attempt.sent
                for attempt in book.recent
                if attempt.ended <= window.started
                and attempt.outcome == Outcome.OK
                and attempt.seq in book.writers[attempt.writer].standing
            ]
            window.survivor_sent = max([window.survivor_sent, *sent])

    def _observe_lags(self, late: list[Late]) -> None:
        for one in late:
            self._tally.stale_lag.observe(one.lag_seconds, STALE_LAG_BUCKETS_SECONDS)

    # -- what the participants saw --

    def _judge_observations(self, watched: Watched, read: Read) -> list[Place]:
        """Judge what participants saw by a whole read that came after it; returns what they did not find."""
        noted = self._lane.observations.pop(watched, [])
        later = [observation for observation in noted if observation.returned > read.invoked]
        if later:
            self._lane.observations[watched] = later
        judged = [observation for observation in noted if observation.returned <= read.invoked]
        for observation in judged:
            if observation.asked is None:
                self._judge_observation(watched, observation)
            else:
                self._judge_search(watched, observation, observation.asked)
        return [observation.asked for observation in judged if observation.asked is not None]

    def _judge_search(self, watched: Watched, observation: Observation, asked: Place) -> None:
        """Judge what stood in the answer to a participant's search; what did not is looked for once more."""
        book, limit = watched.book, observation.last or 0
        items = [_restore(item, self._author) for item in observation.items]
        read = Read(invoked=observation.invoked, returned=observation.returned, acked={}, items=items)
        findings = judge_search(book, read, asked, limit, self.rules, self._author)

        def basis() -> tuple[SessionBook, Basis]:
            return book, Search(read=save(read, book.session, self._author), asked=asked, limit=limit)

        self._reporter.report_findings(self.context(watched, read, basis), findings)

    def _judge_observation(self, watched: Watched, observation: Observation) -> None:
        book = watched.book
        items = [_restore(item, self._author) for item in observation.items]
        read = Read(invoked=observation.invoked, returned=observation.returned, acked={}, items=items)

        def basis() -> tuple[SessionBook, Basis]:
            kept = save(read, book.session, self._author)
            return book, Participation(read=kept, last=observation.last, acked=observation.acked)

        seen = judge_seen(book, read, observation.last, observation.acked, self.rules, self._author)
        self._report_seen(self.context(watched, read, basis), seen)

    def _report_seen(self, context: Context, seen: Seen) -> None:
        """Report what is wrong with a read of a part."""
        if seen.findings:
            self._reporter.report_findings(context, seen.findings)
        self._observe_lags(seen.late)
        self._reporter.report_late(context, seen.late)


def told_of(watched: Watched) -> Seqs:
    """Return what had been missed before, or is counted as lost: that it appears again is part of that story."""
    told: Seqs = {}
    for suspicion in watched.suspicions or ():
        for number, bounds in suspicion.absent.items():
            told.setdefault(number, Intervals()).update(Intervals(bounds))
    lost = watched.counted.places if watched.counted is not None else {}
    for kind in (Kind.LOST, Kind.ROLLED_BACK):
        for number, seqs in lost.get(kind, {}).items():
            told.setdefault(number, Intervals()).update(seqs)
    return told


def _copied(book: SessionBook) -> SessionBook:
    """Return the book as it stands, before a read is taken into it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(book), type=SessionBook)


def _restore(item: SeenItem, author: Author) -> Stored:
    """Return what a participant saw; what was as written is written again, the rest was kept as it came."""
    if item.raw is None:
        return author.write(item.session, item.writer, item.seq)
    try:
        return Message.from_bytes(item.raw)
    except ValueError:
        return Garbled(raw=item.raw, reason=item.problem or "no message")


def now_us() -> int:
    return time.monotonic_ns() // 1000
