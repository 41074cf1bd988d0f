"""What is expected of one session: a book kept from the ledger, and from what has been verified so far.

The life of a message in the book: `leased` (it may be sent at any time), then `acked`, `failed` or `unknown` as
its outcome arrives, or for ever in flight if its worker dies. Once a read shows it, it is `standing`; an unknown
one that is seen counts as acknowledged from then on, but bears no order promise against what was sent later.
What a read shows before its outcome is known, and all that stands behind it, is `unsettled`: it is remembered as seen,
in its order, and becomes `standing` with the outcome. If that is a refusal, the read was dirty (`dirty`).
What is acknowledged and no longer expected (forgotten, expired, tolerated, or already counted as lost) is `excused`.

Memory is per session and per gap, never per message: the verified history is its length, a digest, and its order
as runs of (writer, first, last). Times are kept only for what is not yet verified and for the tail that a crash
could take.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import msgspec
from xxhash import xxh3_128_digest

from soak.checker.incidents import Counted, Failing, Incidents, Missed, Noted, Suspicion
from soak.checker.intervals import Intervals
from soak.checker.message import Stored
from soak.checker.outcome import Attempt, Outcome

NOTHING = Intervals()
"""Stands for an empty set that was never needed; it is only ever read."""


class WriterBook(msgspec.Struct, gc=False, array_like=True):
    """What is expected of one writer's messages."""

    leased: int
    acked: Intervals
    standing: Intervals
    failed: Intervals
    unknown: Intervals
    excused: Intervals
    gone: Intervals
    """Acknowledged as forgotten: it must not be seen again."""

    @classmethod
    def new(cls) -> WriterBook:
        return cls(0, Intervals(), Intervals(), NOTHING, NOTHING, NOTHING, NOTHING)

    def is_in_flight(self, seq: int) -> bool:
        return seq not in self.acked and seq not in self.unknown and seq not in self.failed

    def may_stand(self, seq: int) -> bool:
        """Whether its outcome is known, and no refusal."""
        return seq in self.acked or seq in self.unknown

    def bears_order(self, seq: int) -> bool:
        """Whether it was acknowledged before the same writer's next message was sent."""
        return seq in self.acked and seq not in self.unknown

    def excuse(self, seqs: Intervals) -> None:
        self.excused = united(self.excused, seqs)


def united(one: Intervals, other: Intervals) -> Intervals:
    """Return the union; the first set is changed in place unless it is the shared empty one."""
    if not other:
        return one
    if one is NOTHING:
        return other.copy()
    one.update(other)
    return one


FRONTS_MAX = 64
"""Unknown writes of a session of which it is remembered what had been acknowledged before they were sent."""

FORGET_US_MAX = 10_000_000
"""A forget without an outcome for so long is one whose worker died: it may happen at any time."""


class Forgets(msgspec.Struct, eq=False, gc=False, array_like=True):
    """The forgets of one session."""

    open: list[int] = []
    """When those were sent whose outcome is on its way."""
    sent: int = 0
    """When the last one was sent that has happened; by the clocks of other hosts, at the earliest."""
    ended: int = 0
    """When the last one was answered that has happened; by the clocks of other hosts, at the latest. 0: none has."""
    is_undone: bool = False
    """A fault may have undone it; the next one that happens settles that."""
    may_happen: int = 0
    """When the first one was sent whose outcome is unknown; 0: there is none."""

    @property
    def is_certain(self) -> bool:
        """Whether one has happened, and no fault may have undone it."""
        return self.ended > 0 and not self.is_undone

    @property
    def is_in_doubt(self) -> bool:
        """Whether one was sent that may or may not have happened, now or later."""
        return bool(self.open) or self.may_happen > 0 or self.is_undone

    @property
    def in_doubt_since(self) -> int:
        """When the first one was sent that may or may not have happened."""
        return 0 if self.is_undone else min([*self.open, *([self.may_happen] if self.may_happen else ())], default=0)

    def is_awaited(self, at: int) -> bool:
        """Whether one is under way whose outcome is still to come: what is missing meanwhile proves nothing."""
        return any(at <= sent + FORGET_US_MAX for sent in self.open)

    def may_erase(self, sent: int) -> bool:
        """Whether one may have erased what was sent at this time, or may yet."""
        return self.may_happen > 0 or self.is_undone or sent <= self.ended

    def has_erased(self, applied: int) -> bool:
        """Whether one has certainly erased what had been applied by this time."""
        return self.is_certain and applied < self.sent

    def happened(self, sent: int, ended: int) -> bool:
        """Take in that one has happened; returns whether that says anything that was not known before."""
        if ended < self.sent:
            return False  # a later one has happened
        self.is_undone = self.is_undone and sent < self.sent
        self.sent, self.ended = max(self.sent, sent), max(self.ended, ended)
        return True


NEVER = 2**62
"""Later than everything."""


class Lifespan(NamedTuple):
    """When a session's first and last append were sent and acknowledged; kept only where sessions expire."""

    first_sent: int
    first_ended: int
    last_sent: int
    last_ended: int
    reborn: int = 0
    """An earlier life may have ended; what was sent up to this time may have gone with it."""
    old_until: int = 0
    """By when the life that `first_sent` began must be over, if another may have begun since; 0: none may have."""
    next_sent: int = 0
    """When the first append was sent that may have begun that other life."""


NO_ATTEMPTS: list[Attempt] = []
"""Stands for an empty list in the many sessions that wait for nothing; it is only ever read."""

IN_FLIGHT_GRACE_US = 5_000_000
"""How long the outcome of a message is waited for that a read has shown."""


class Unsettled(NamedTuple):
    """A message that a read has shown before its outcome was known, or behind such a one."""

    writer: int
    seq: int
    since: int
    """When the first read that showed it returned."""
    lacked: int
    """When the read before that was invoked, and returned; 0: there was none."""
    lacked_returned: int
    was_seen: bool = False
    """A read before that one had shown it, too."""


class ExpectedSession(msgspec.Struct, eq=False, gc=False, array_like=True):
    """What is expected of one session."""

    session: str
    store: str
    writers: list[WriterBook] = []
    """By number."""
    pending: list[Attempt] = msgspec.field(default_factory=lambda: NO_ATTEMPTS)
    """Acknowledged and not yet seen, oldest first."""
    recent: list[Attempt] = msgspec.field(default_factory=lambda: NO_ATTEMPTS)
    """Seen, but young enough to be taken by a crash."""
    order: bytes = b""
    """The verified order, as packed runs of (writer, first, last)."""
    length: int = 0
    hashed: int = 0
    digest: bytes = b""
    latest_sent: int = 0
    """The latest time at which something that stands was sent; what was acknowledged before belongs before it."""
    latest_writer: int = 0
    latest_seq: int = 0
    unsettled: list[Unsettled] | None = None
    """What the last read showed behind the verified part, from the first message without an outcome on, in order."""
    closed: bool = False
    """Every outcome there will ever be has arrived."""
    forgets: Forgets | None = None
    span: Lifespan | None = None
    last_whole: int = 0
    """When the last whole read that was judged had been invoked; 0: there was none yet."""
    last_read: int = 0
    """The same for a whole read or one of the end of the session."""
    last_returned: int = 0
    last_items: int = 0
    incidents: Incidents | None = None
    """None in the many sessions that nothing ever happens to."""

    # -- what the ledger says --

    def writer(self, number: int) -> WriterBook:
        missing = number + 1 - len(self.writers)
        if missing > 0:
            # Two lists added up take no more memory than they need.
            self.writers = self.writers + [WriterBook.new() for _ in range(missing)]
        return self.writers[number]

    def find_writer(self, number: int) -> WriterBook | None:
        return self.writers[number] if 0 <= number < len(self.writers) else None

    def lease(self, writer: int, upto: int) -> None:
        book = self.writer(writer)
        book.leased = max(book.leased, upto)

    def acknowledge(self, attempt: Attempt) -> bool:
        """Take in an acknowledgement; returns whether the message still has to be verified."""
        seq = attempt.seq
        book = self.writers[attempt.writer] if attempt.writer < len(self.writers) else self.writer(attempt.writer)
        # This runs for every message, so the usual case, the next one in a row, comes first.
        bounds = book.acked.bounds
        if bounds and bounds[-1] == seq - 1:
            bounds[-1] = seq
        else:
            book.acked.add(seq)
        if book.unknown.bounds and seq in book.unknown:
            # It was seen so long before its outcome came that none was expected any more. It bears its order again.
            book.unknown = book.unknown.minus(Intervals([seq, seq]))
            self._remember(attempt)
            self.is_order_open = seq in book.standing
        if self.forgets is not None:
            self._place_around_forgets(attempt)
        standing = book.standing.bounds
        if standing and seq <= standing[-1] and seq in book.standing:
            return False
        if attempt.ended <= self.last_read:
            self._note_lateness(attempt)
        if book.excused.bounds and seq in book.excused:
            self._remember(attempt)
            return False
        if self.pending:
            self.pending.append(attempt)
        else:
            self.pending = [attempt]
        return True

    def _note_lateness(self, attempt: Attempt) -> None:
        """Take in that a read should have shown a message, as it turns out."""
        if self.was_overlooked(attempt):
            if self.unexplained:
                # Something unreadable stood in its place.
                self.unexplained, self.explained = self.unexplained - 1, self.explained + 1
                self.writers[attempt.writer].excuse(Intervals([attempt.seq, attempt.seq]))
            else:
                self.overlooked = [*(self.overlooked or ()), attempt]
            return
        for one in self.unsettled or ():
            is_it = (one.writer, one.seq) == (attempt.writer, attempt.seq)
            if is_it and attempt.ended < one.lacked and not self._is_around_forget(attempt, one.lacked_returned):
                self.shown_late = [*(self.shown_late or ()), (attempt, one.lacked, one.lacked_returned, one.was_seen)]

    def _place_around_forgets(self, attempt: Attempt) -> None:
        """Decide what an acknowledgement that comes after a forget means for it."""
        writer, seqs = self.writers[attempt.writer], Intervals([attempt.seq, attempt.seq])
        if self.forgets is not None and self.forgets.has_erased(attempt.ended):
            writer.excuse(seqs)
            writer.gone = united(writer.gone, seqs)
            if self._was_seen_behind_forget(attempt):
                self.revived = [*(self.revived or ()), (attempt.writer, attempt.seq)]
        elif self._may_be_erased(attempt):
            writer.excuse(seqs)

    def _may_be_erased(self, attempt: Attempt) -> bool:
        """Whether a forget may have erased a message, or may yet; not one behind which it was seen."""
        if self.forgets is None or not self.forgets.may_erase(attempt.sent):
            return False
        if self.forgets.may_happen or self.forgets.is_undone:
            return True
        return not self._was_seen_behind_forget(attempt)

    def _was_seen_behind_forget(self, attempt: Attempt) -> bool:
        """Whether a read behind the last forget that has happened showed a message without an outcome."""
        place, ended = (attempt.writer, attempt.seq), 0 if self.forgets is None else self.forgets.ended
        if place in self.unsettled_names() or any(one[:2] == place and one[2] > ended for one in self.veiled or ()):
            return True
        behind = (one for one in self.suspicions or () if one.last_seen > ended)
        return any(_is_in(one.seen, *place) for one in behind if not (one.by_other or one.seen_in_shadow))

    def _is_around_forget(self, attempt: Attempt, returned: int) -> bool:
        """Whether a read that returned then may rightly have lacked a message because of a forget."""
        forgets = self.forgets
        if forgets is None:
            return False
        return any(sent <= returned for sent in forgets.open) or forgets.may_erase(attempt.sent)

    def was_overlooked(self, attempt: Attempt) -> bool:
        """Whether the last read did not show a message, as far as is known, although it should have."""
        if (
            self.is_blind
            or self._is_around_forget(attempt, self.last_returned)
            or attempt.seq in self.writers[attempt.writer].excused
        ):
            return False
        if (attempt.writer, attempt.seq) in self.veiled_names():
            return False
        if any(_is_in(one.absent, attempt.writer, attempt.seq) for one in self.suspicions or ()):
            return False  # it is missed already
        return (attempt.writer, attempt.seq) not in self.unsettled_names()

    def fail(self, writer: int, seq: int) -> None:
        book = self.writer(writer)
        book.failed = united(book.failed, Intervals([seq, seq]))
        seen = [one.since for one in self.unsettled or () if (one.writer, one.seq) == (writer, seq)]
        seen += [at for number, other, at in self.glimpsed or () if (number, other) == (writer, seq)]
        if seq in book.standing:
            # A read has shown it, before its refusal was known: the next one has to look at it again.
            self.replace_verified([place for place in self.names_in_order() if place != (writer, seq)])
            seen = [self.last_read]
        elif seq in book.acked:
            # It was seen, and is missed since: it had counted as acknowledged from then on.
            book.acked = book.acked.minus(Intervals([seq, seq]))
            book.unknown = book.unknown.minus(Intervals([seq, seq])) if book.unknown else NOTHING
        if seen:
            self.dirty = [*(self.dirty or ()), (writer, seq, seen[0])]
            self.unsettled = [one for one in self.unsettled or () if (one.writer, one.seq) != (writer, seq)] or None
            for suspicion in self.suspicions or ():
                left = Intervals(suspicion.absent.get(writer, [])).minus(Intervals([seq, seq]))
                suspicion.absent[writer] = left.bounds
            self.suspicions = [one for one in self.suspicions or () if not one.is_over] or None

    def doubt(self, attempt: Attempt) -> None:
        """Take in an unknown outcome."""
        book = self.writer(attempt.writer)
        book.unknown = united(book.unknown, Intervals([attempt.seq, attempt.seq]))
        if attempt.seq not in book.acked:
            self._note_front(attempt)
        self._remember(attempt)
        seen = [one for one in self.glimpsed or () if one[:2] == (attempt.writer, attempt.seq)]
        if (
            seen
            and self.forgets is not None
            and not self._is_around_forget(attempt, self.last_returned)
            and attempt.seq not in book.acked
        ):
            # A read had shown it behind the forget, as its time says now. Where it stood among what else that read
            # showed is not known any more, so it counts as one of a moment before, which it shares with nothing.
            moments, at = {one[2] for one in self.veiled or ()}, seen[-1][2] - 1
            while at in moments:
                at -= 1
            self.veiled = [*(self.veiled or ()), (*seen[-1][:2], at)]

    def is_of_earlier_life(self, attempt: Attempt) -> bool:
        """Whether a read had shown a message in a life that may be over, before another one began."""
        writer = self.writer(attempt.writer)
        is_excused = attempt.seq in writer.acked and attempt.seq in writer.excused
        return is_excused and self.span is not None and self.span.reborn > 0

    def _note_front(self, attempt: Attempt) -> None:
        """Remember what an unknown write may never stand in front of, however late it appears."""
        earlier = [
            one for one in (*self.recent, *self.pending) if one.outcome == Outcome.OK and one.ended < attempt.sent
        ]
        last = max(earlier, key=lambda one: one.ended, default=None)
        if last is not None:
            front = (attempt.writer, attempt.seq, attempt.sent, last.writer, last.seq, last.ended)
            self.fronts = [*(self.fronts or ()), front][-FRONTS_MAX:]

    def _remember(self, attempt: Attempt) -> None:
        if self.recent:
            self.recent.append(attempt)
        else:
            self.recent = [attempt]

    def intend_forget(self, sent: int) -> None:
        """Take in that the session is about to be erased: until the outcome is known nothing need be there."""
        if self.forgets is None:
            self.forgets = Forgets()
        self.forgets.open = [*self.forgets.open, sent]

    @property
    def forget_in_doubt(self) -> bool:
        """Whether a forget was sent that may or may not have happened, now or later."""
        return self.forgets is not None and self.forgets.is_in_doubt

    def drop_excused(self) -> None:
        """Stop waiting for what is no longer expected."""
        waiting = [attempt for attempt in self.pending if attempt.seq not in self.writers[attempt.writer].excused]
        if len(waiting) < len(self.pending):
            # A read that is behind may still show it, and a forget under way may have raced with it.
            self.recent = [*self.recent, *(attempt for attempt in self.pending if attempt not in waiting)]
            self.pending = waiting or NO_ATTEMPTS

    # -- what happened to it, if anything did --

    suspicions = Noted[list[Suspicion] | None](None)
    missed = Noted[list[Missed] | None](None)
    dirty = Noted[list[tuple[int, int, int]] | None](None)
    overlooked = Noted[list[Attempt] | None](None)
    shown_late = Noted[list[tuple[Attempt, int, int, bool]] | None](None)
    revived = Noted[list[tuple[int, int]] | None](None)
    veiled = Noted[list[tuple[int, int, int]] | None](None)
    glimpsed = Noted[list[tuple[int, int, int]] | None](None)
    failing = Noted[Failing | None](None)
    counted = Noted[Counted | None](None)
    is_blind = Noted[bool](nothing=False)
    is_order_open = Noted[bool](nothing=False)
    explained = Noted[int](0)
    unexplained = Noted[int](0)
    searched = Noted[int](0)
    glanced = Noted[list[tuple[int, int]] | None](None)
    answered = Noted[list[tuple[int, int, int]] | None](None)
    fronts = Noted[list[tuple[int, int, int, int, int, int]] | None](None)

    # -- what is known of it --

    @property
    def is_in_doubt(self) -> bool:
        """Whether something is missing, from a read or from a search, or a read raised, that is not confirmed yet."""
        known = self.incidents
        if known is None:
            return False
        return bool(known.suspicions or known.missed or known.failing or self.is_news_pending)

    @property
    def is_news_pending(self) -> bool:
        """Whether an outcome that came late says something about reads that were judged before."""
        known = self.incidents
        return known is not None and bool(
            known.overlooked or known.dirty or known.shown_late or known.revived or known.is_order_open
        )

    def unsettled_names(self) -> list[tuple[int, int]]:
        return [(one.writer, one.seq) for one in self.unsettled or ()]

    def veiled_names(self) -> list[tuple[int, int]]:
        return [(writer, seq) for writer, seq, _ in self.veiled or ()]

    def suspected_names(self) -> Iterator[tuple[int, int]]:
        for suspicion in self.suspicions or ():
            for number, bounds in suspicion.absent.items():
                for seq in Intervals(bounds):
                    yield number, seq

    def shows(self, writer: int, seq: int) -> bool:
        """Whether the last read has shown a message."""
        return seq in self.writers[writer].standing or (writer, seq) in self.unsettled_names()

    @property
    def shown_order(self) -> bytes:
        """All that the last read has shown, packed as the verified order is."""
        waiting = runs_of(self.unsettled_names())
        return self.order + array("I", chain.from_iterable(waiting)).tobytes() if waiting else self.order

    @property
    def first_of_tail(self) -> tuple[int, int] | None:
        """The first message that the last read could show, where that was a read of the end; None: it was of all."""
        if self.last_read == self.last_whole:
            return None
        names = [*self.last_names(self.last_items), *self.unsettled_names()]
        return names[-self.last_items] if 0 < self.last_items <= len(names) else None

    @property
    def oldest_pending(self) -> int | None:
        """When the oldest acknowledgement that nobody has verified yet came in."""
        return self.pending[0].ended if self.pending else None

    def acked_now(self) -> dict[int, Intervals]:
        """Copy what is known as acknowledged, as the base of a read that is about to be invoked."""
        return {number: book.acked.copy() for number, book in enumerate(self.writers)}

    def names_in_order(self) -> Iterator[tuple[int, int]]:
        return names_in(runs_in(self.order))

    def last_names(self, count: int) -> list[tuple[int, int]]:
        """Return the end of the verified order, newest last."""
        order = array("I", self.order)
        runs: list[tuple[int, int, int]] = []
        at = len(order) - 3
        while at >= 0 and count > 0:
            writer, first, last = order[at : at + 3]
            low = max(first, last - count + 1)
            runs.append((writer, low, last + 1))
            count -= last + 1 - low
            at -= 3
        return [(writer, seq) for writer, low, end in reversed(runs) for seq in range(low, end)]

    def stand(self, names: Iterable[tuple[int, int]]) -> None:
        """Append to the verified order."""
        self.stand_runs(runs_of(names))

    def stand_runs(self, runs: Iterable[tuple[int, int, int]]) -> None:
        order = array("I", self.order)
        for writer, first, last in runs:
            if len(order) and order[-3] == writer and order[-1] == first - 1:
                order[-1] = last
            else:
                order.extend((writer, first, last))
            self.writers[writer].standing.add_run(first, last)
            self.length += last - first + 1
        self.order = order.tobytes()

    def replace_verified(self, names: list[tuple[int, int]]) -> None:
        """Replace the verified order, after a read that differs from it."""
        self.restand_runs(runs_of(names))

    def restand_runs(self, runs: list[tuple[int, int, int]]) -> None:
        for book in self.writers:
            book.standing = Intervals()
        self.order = b""
        self.length = self.hashed = 0
        self.digest = b""
        self.stand_runs(runs)


def _is_in(bounds: dict[int, list[int]], writer: int, seq: int) -> bool:
    return seq in Intervals(bounds.get(writer, []))


def name_of(book: ExpectedSession, place: tuple[int, int]) -> str:
    return f"{book.session}/{place[0]}/{place[1]}"


def runs_of(names: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Fold names into runs of (writer, first, last); most histories are very few of them."""
    runs: list[tuple[int, int, int]] = []
    current = first = last = -1
    for writer, seq in names:
        if writer == current and seq == last + 1:
            last = seq
            continue
        if current >= 0:
            runs.append((current, first, last))
        current, first, last = writer, seq, seq
    if current >= 0:
        runs.append((current, first, last))
    return runs


def runs_in(order: bytes) -> Iterator[tuple[int, int, int]]:
    """Unpack an order as it is kept."""
    numbers = array("I", order)
    return zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)


def names_in(runs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Unfold what `runs_of` folded."""
    for writer, first, last in runs:
        for seq in range(first, last + 1):
            yield writer, seq


_encoder = msgspec.msgpack.Encoder()


def digest_of(items: Iterable[Stored]) -> bytes:
    """Return a digest that only the same items have; empty, like no other, if one of them cannot be a message."""
    try:
        return xxh3_128_digest(_encoder.encode(items))
    except (TypeError, ValueError, OverflowError):
        return b""
