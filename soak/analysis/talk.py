"""One session of a trial: what was said, what was answered, what was read, and what soak's own judgement says to it.

The verdicts are those of `soak.model`, reached as the verifier reaches them: a read is judged against the book, what it
lacks is a suspicion, and only a second read after the settle time confirms a loss. Nothing here has an opinion.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from soak.model.absence import Seqs, Suspicion, suspect
from soak.model.absorb import absorb
from soak.model.attempt import Attempt
from soak.model.book import SessionBook
from soak.model.faults import FaultWindow
from soak.model.intervals import Intervals
from soak.model.judge import judge
from soak.model.kinds import Kind
from soak.model.message import Stored
from soak.model.outcome import NotApplied, Outcome
from soak.model.partial import judge_glance
from soak.model.read import Finding, Judgement, Read, Rules, name_of
from soak.model.saved import save
from soak.model.second_look import Look, Looked, look_again, untold
from soak.model.text import Author
from soak.stores.protocol import MemoryStore

SETTLE_SECONDS = 0.5
"""What is missing is looked for once more after this time."""
ERRORS_MAX = 5
"""Different complaints that are remembered of one session."""
_REMEMBER_US = 86_400_000_000
_STORE = "subject"


def now_us() -> int:
    """Return CLOCK_MONOTONIC in microseconds, the clock of every time here."""
    return time.monotonic_ns() // 1000


class Talk:
    """A session under way. One read at a time; any number of writers, each with one message in flight."""

    def __init__(self, session: str, author: Author, rules: Rules, faults: Sequence[FaultWindow] = ()) -> None:
        self.session = session
        self.outcomes: Counter[Outcome] = Counter()
        self.found: dict[tuple[Kind, str], str] = {}
        """What is wrong, each thing once: kind and message, with the detail."""
        self.tolerated = 0
        """Lost, and excused by what the server as configured promises."""
        self.verified = 0
        self.reads = 0
        self.reads_without_answer = 0
        self.errors: dict[str, int] = {}
        self.is_busy = False
        """The last message had no answer at all, not even an error: the library may still be at it."""
        self._author = author
        self._rules = rules
        self._faults = faults
        self._book = SessionBook(session=session, store=_STORE)
        self._suspicions: list[Suspicion] = []
        self._lost: Seqs = {}
        self._last_whole = 0
        self._said: Counter[int] = Counter()

    # -- saying --

    async def say(self, store: MemoryStore, writer: int = 0) -> Outcome:
        """Append the writer's next message, once; whatever happens is recorded."""
        self._said[writer] += 1
        seq = self._said[writer]
        message = self._author.write(self.session, writer, seq)
        self._book.lease(writer, seq)
        sent = now_us()
        outcome = Outcome.UNKNOWN
        is_answered = True
        try:
            await store.append(self.session, message)
            outcome = Outcome.OK
        except NotApplied as error:
            self._complain(error)
            outcome = Outcome.FAILED
        except TimeoutError as error:
            is_answered = False
            self._complain(error)
        except Exception as error:  # noqa: BLE001  by the protocol, anything else means that nobody knows
            self._complain(error)
        except asyncio.CancelledError:
            is_answered = False
            raise
        finally:
            self.is_busy = not is_answered
            self._record(Attempt(0, writer, seq, outcome, sent, max(now_us(), sent + 1)))
        return outcome

    async def forget(self, store: MemoryStore) -> Outcome:
        sent = now_us()
        self._book.intend_forget(sent)
        outcome = Outcome.UNKNOWN
        try:
            await store.forget(self.session)
            outcome = Outcome.OK
        except NotApplied as error:
            self._complain(error)
            outcome = Outcome.FAILED
        except Exception as error:  # noqa: BLE001  as above
            self._complain(error)
        self._book.end_forget(outcome, sent, max(now_us(), sent + 1))
        return outcome

    def close(self) -> None:
        """Note that nothing more will be said: where sessions expire, it is known when this one has to be gone."""
        self._book.closed = True

    def _record(self, attempt: Attempt) -> None:
        self.outcomes[Outcome(attempt.outcome)] += 1
        if attempt.outcome == Outcome.OK:
            self._book.acknowledge(attempt)
            if self._rules.contract.ttl_seconds is not None:
                self._book.extend_span(attempt)
        elif attempt.outcome == Outcome.FAILED:
            self._book.fail(attempt.writer, attempt.seq)
        else:
            self._book.doubt(attempt)

    # -- reading --

    async def read(self, store: MemoryStore) -> bool:
        """Read the whole session and judge it; returns False if there was no answer, which is no violation."""
        acked, invoked = self._book.acked_now(), now_us()
        items = await self._answer(store, None)
        if items is None:
            return False
        read = Read(invoked=invoked, returned=now_us(), acked=acked, items=items)
        # Nothing is awaited from here on: the book is what it was when the answer came.
        self._conclude(read, judge(self._book, read, self._rules, self._author))
        return True

    async def read_last(self, store: MemoryStore, last: int) -> bool:
        """Read the last so many, and hold them against the last whole read."""
        acked, invoked = self._book.acked_now(), now_us()
        items = await self._answer(store, last)
        if items is None:
            return False
        read = Read(invoked=invoked, returned=now_us(), acked=acked, items=items)
        self._note(judge_glance(self._book, read, last, self._rules).findings)
        return True

    async def settle(self, store: MemoryStore) -> bool:
        """Read until there is an answer that leaves no suspicion open; returns False if there is none."""
        if not await self.read(store):
            return False
        if self._suspicions:
            await asyncio.sleep(SETTLE_SECONDS)
            return await self.read(store)
        return True

    @property
    def is_settled(self) -> bool:
        """Whether everything that was acknowledged was seen, or is known to be missing."""
        return not self._suspicions and not self._book.pending

    async def _answer(self, store: MemoryStore, last: int | None) -> Sequence[Stored] | None:
        try:
            items = await store.history(self.session, last)
        except Exception as error:  # noqa: BLE001  no answer is unavailability, whatever was raised
            self.reads_without_answer += 1
            self._complain(error)
            return None
        self.reads += 1
        return items

    def _conclude(self, read: Read, judgement: Judgement) -> None:
        book, known = self._book, self._suspicions
        opened = suspect(book, judgement.absent, read, known, last_seen=self._last_whole)
        if opened is not None:
            opened.shown, opened.before = save(read, book.session, self._author), book.order
        self._note(untold(judgement.findings, self._told()))
        before = _copied(book) if known else book
        self.verified += absorb(
            book, judgement, read, remember_us=_REMEMBER_US, staleness_us=self._rules.contract.staleness_us
        ).verified
        self._last_whole = read.invoked
        self._note_survivors(read)
        if known:
            self._review(known, self._look(before, read, judgement))
        self._suspicions = [one for one in (*known, *([opened] if opened is not None else [])) if not one.is_over]

    def _look(self, before: SessionBook, read: Read, judgement: Judgement) -> Look:
        staleness = self._rules.contract.staleness_us
        return Look(
            book=before,
            read=read,
            judgement=judgement,
            primary=None,
            run=self._author.run,
            rules=self._rules,
            faults=self._faults,
            is_calm=not any(window.is_active for window in self._faults),
            final_us=None if staleness is None else int(SETTLE_SECONDS * 1e6 / 2) + staleness,
            asks_primary=False,
        )

    def _review(self, known: Sequence[Suspicion], look: Look) -> None:
        for suspicion in known:
            self._note_looked(look_again(look, suspicion))
        self._book.drop_excused()

    def _note_looked(self, looked: Looked) -> None:
        for lost in looked.lost:
            number, seq = lost.place
            self._book.writers[number].excuse(Intervals([seq, seq]))
            self._lost.setdefault(number, Intervals()).add(seq)
            if lost.excused_by is not None:
                self.tolerated += 1
            else:
                self.found.setdefault((lost.kind, name_of(self._book, lost.place)), lost.kind.sentence)
        for late in looked.late:
            if late.is_broken_promise:
                self.found.setdefault((late.kind, name_of(self._book, late.place)), late.detail)

    def _told(self) -> Seqs:
        """Return what had been missed before, or is counted as lost: that it appears again is part of that story."""
        told: Seqs = {number: seqs.copy() for number, seqs in self._lost.items()}
        for suspicion in self._suspicions:
            for number, bounds in suspicion.absent.items():
                told.setdefault(number, Intervals()).update(Intervals(bounds))
        return told

    def _note_survivors(self, read: Read) -> None:
        """Remember how late something was sent that survived a fault: nothing before it may be missing."""
        for window in self._faults:
            if window.ended is not None and read.invoked >= window.ended:
                sent = [
                    attempt.sent
                    for attempt in self._book.recent
                    if attempt.ended <= window.started
                    and attempt.outcome == Outcome.OK
                    and attempt.seq in self._book.writers[attempt.writer].standing
                ]
                window.survivor_sent = max([window.survivor_sent, *sent])

    def _note(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self.found.setdefault((finding.kind, finding.message), finding.detail)

    def _complain(self, error: BaseException) -> None:
        text = " ".join(str(error).split()) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))
        if text in self.errors or len(self.errors) < ERRORS_MAX:
            self.errors[text] = self.errors.get(text, 0) + 1


def _copied(book: SessionBook) -> SessionBook:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(book), type=SessionBook)
