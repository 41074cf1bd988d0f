"""What is expected of one session: a book kept from the ledger, and from what has been verified so far.

The life of a message in the book: `leased` (it may be sent at any time), then `acked`, `failed` or `unknown` as
its outcome arrives, or for ever in flight if its worker dies. Once a read shows it, it is `standing`; an unknown
one that is seen counts as acknowledged from then on, but bears no order promise against what was sent later.
What is acknowledged and no longer expected (forgotten, expired, tolerated, or already counted as lost) is `excused`.

Memory is per session and per gap, never per message: the verified history is its length, a digest, and its order
as runs of (writer, first, last). Times are kept only for what is not yet verified and for the tail that a crash
could take.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from xxhash import xxh3_128_digest

from soak.model.attempt import Attempt
from soak.model.intervals import Intervals
from soak.model.message import Stored
from soak.model.outcome import Outcome

NOTHING = Intervals()
"""Stands for an empty set that was never needed; it is only ever read."""

NO_ATTEMPTS: list[Attempt] = []
"""Stands for an empty list in the many sessions that wait for nothing; it is only ever read."""

_NEVER = 2**62

RECENT_MAX = 8_192
"""Verified messages of a session whose times are remembered, at most."""


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

    def bears_order(self, seq: int) -> bool:
        """Whether it was acknowledged before the same writer's next message was sent."""
        return seq in self.acked and seq not in self.unknown

    def excuse(self, seqs: Intervals) -> None:
        self.excused = united(self.excused, seqs)


class Forgetting(NamedTuple):
    """An attempt to erase the session; `outcome` is None while it is under way."""

    sent: int
    ended: int
    outcome: Outcome | None


class Span(NamedTuple):
    """When a session's first and last append were sent and acknowledged; kept only where sessions expire."""

    first_sent: int
    first_ended: int
    last_sent: int
    last_ended: int
    reborn: int = 0
    """An earlier life may have ended; what was sent up to this time may have gone with it."""


class SessionBook(msgspec.Struct, eq=False, gc=False, array_like=True):
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
    awaited: dict[str, int] | None = None
    """Messages that are seen and have no outcome yet, as `writer/seq`, and since when each has been waited for."""
    closed: bool = False
    """Every outcome there will ever be has arrived."""
    forgetting: Forgetting | None = None
    span: Span | None = None
    explained: int = 0
    """Messages that are missing because something unreadable stands in their place: one row explains one, once."""
    forgotten_before: Forgetting | None = None
    """The last forget that has happened for certain, while another one is under way."""

    # -- what the ledger says --

    def writer(self, number: int) -> WriterBook:
        missing = number + 1 - len(self.writers)
        if missing > 0:
            self.writers = [*self.writers, *(WriterBook.new() for _ in range(missing))]
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
            self.recent = [*self.recent, attempt]
        if self.forgetting is not None:
            self._place_around_forget(attempt)
        standing = book.standing.bounds
        if standing and seq <= standing[-1] and seq in book.standing:
            return False
        if book.excused.bounds and seq in book.excused:
            if self.is_being_forgotten:
                self.recent = [*self.recent, attempt]
            return False
        if self.pending:
            self.pending.append(attempt)
        else:
            self.pending = [attempt]
        return True

    def extend_span(self, attempt: Attempt) -> None:
        """Note when the session was last appended to, where its life depends on it."""
        span = self.span or Span(attempt.sent, attempt.ended, attempt.sent, attempt.ended)
        # Of several appends under way at once any may have been applied first, but none after the first answer.
        self.span = Span(
            min(span.first_sent, attempt.sent),
            min(span.first_ended, attempt.ended),
            max(span.last_sent, attempt.sent),
            max(span.last_ended, attempt.ended),
            span.reborn,
        )

    def restart_span(self, attempt: Attempt, begun: Span | None) -> None:
        """Begin a new life with this append; if the old one may go on, it may also end when that would have."""
        first_sent = attempt.sent if begun is None else begun.first_sent
        self.span = Span(first_sent, attempt.ended, attempt.sent, attempt.ended, reborn=attempt.ended)

    def begin_span_no_later(self, attempt: Attempt) -> None:
        """Note that the life of the session may have begun with an append whose outcome is unknown."""
        if self.span is not None:
            self.span = self.span._replace(first_sent=min(self.span.first_sent, attempt.sent))
        else:
            # It may not have happened at all: it promises nothing about until when the session lives.
            self.span = Span(attempt.sent, attempt.ended, 0, attempt.ended)

    def fail(self, writer: int, seq: int) -> None:
        book = self.writer(writer)
        book.failed = united(book.failed, Intervals([seq, seq]))
        if seq in book.standing:
            # A read has shown it, before its refusal was known: the next one has to look at it again.
            self.restand([place for place in self.names_in_order() if place != (writer, seq)])

    def doubt(self, attempt: Attempt) -> None:
        """Take in an unknown outcome."""
        book = self.writer(attempt.writer)
        book.unknown = united(book.unknown, Intervals([attempt.seq, attempt.seq]))
        self.recent = [*self.recent, attempt]

    def intend_forget(self, sent: int) -> None:
        """Take in that the session is about to be erased: until the outcome is known nothing need be there."""
        if self.forgetting is None or self.forgetting.outcome is not Outcome.UNKNOWN:
            if self.forgetting is not None and self.forgetting.outcome is Outcome.OK:
                self.forgotten_before = self.forgetting
            self.forgetting = Forgetting(sent, 0, None)

    def end_forget(self, outcome: Outcome, sent: int, ended: int) -> None:
        if self.forgetting is not None and self.forgetting.outcome is Outcome.UNKNOWN:
            return  # an earlier one may still happen at any time, whatever became of this one
        if outcome is Outcome.FAILED:
            self.forgetting = self.forgotten_before
            return
        self.forgetting = Forgetting(sent, ended, outcome)
        raced = {(attempt.writer, attempt.seq) for attempt in (*self.recent, *self.pending) if attempt.ended >= sent}
        for number, book in enumerate(self.writers):
            if outcome is Outcome.OK:
                racing = Intervals.of(sorted(seq for writer, seq in raced if writer == number))
                book.gone = united(book.gone, book.acked.minus(racing).minus(book.unknown))
            later = Intervals.of(
                sorted(a.seq for a in self.pending if a.writer == number and a.sent > ended and outcome is Outcome.OK)
            )
            book.excuse(book.acked.minus(later))
            book.gone = book.gone.minus(later) if later else book.gone
        if self.span is not None:
            # The next append that is answered begins a new life, unless one that raced with the forget has.
            self.span = self.span._replace(first_ended=_NEVER)
        if outcome is Outcome.OK:
            self.restand([])
            self.recent = NO_ATTEMPTS
        self.drop_excused()

    def _place_around_forget(self, attempt: Attempt) -> None:
        """Decide what an acknowledgement that comes after a forget means for it."""
        for forgetting in (self.forgetting, self.forgotten_before):
            if forgetting is None or forgetting.outcome is None:
                continue
            if forgetting.outcome is not Outcome.OK or attempt.sent <= forgetting.ended:
                # It may have been erased with the rest, or by a forget that is still on its way.
                self.writer(attempt.writer).excuse(Intervals([attempt.seq, attempt.seq]))

    def doubt_since(self, since: int, until: int) -> None:
        """Take in that a fault may have undone what was done in this time: a forget, or that a life was prolonged."""
        for forgetting in (self.forgetting, self.forgotten_before):
            if forgetting is not None and forgetting.outcome is Outcome.OK and since <= forgetting.ended <= until:
                self.forgetting = forgetting._replace(outcome=Outcome.UNKNOWN)
                for writer in self.writers:
                    writer.gone = NOTHING
        if self.span is not None and since <= self.span.last_ended and self.span.last_sent <= until:
            self.span = self.span._replace(last_sent=self.span.first_sent)

    @property
    def is_being_forgotten(self) -> bool:
        """Whether a forget is under way: when it ends, the times of all that raced with it are needed."""
        return self.forgetting is not None and self.forgetting.outcome is None

    @property
    def forget_in_doubt(self) -> bool:
        """Whether a forget was sent that may or may not have happened, now or later."""
        return self.forgetting is not None and self.forgetting.outcome is not Outcome.OK

    def drop_excused(self) -> None:
        """Stop waiting for what is no longer expected."""
        waiting = [attempt for attempt in self.pending if attempt.seq not in self.writers[attempt.writer].excused]
        if self.is_being_forgotten and len(waiting) < len(self.pending):
            self.recent = [*self.recent, *(attempt for attempt in self.pending if attempt not in waiting)]
        self.pending = waiting or NO_ATTEMPTS

    # -- what is known of it --

    @property
    def oldest_pending(self) -> int | None:
        """When the oldest acknowledgement that nobody has verified yet came in."""
        return self.pending[0].ended if self.pending else None

    def acked_now(self) -> dict[int, Intervals]:
        """Copy what is known as acknowledged, as the base of a read that is about to be invoked."""
        return {number: book.acked.copy() for number, book in enumerate(self.writers)}

    def names_in_order(self) -> Iterator[tuple[int, int]]:
        order = array("I", self.order)
        for at in range(0, len(order), 3):
            writer = order[at]
            for seq in range(order[at + 1], order[at + 2] + 1):
                yield writer, seq

    def last_names(self, count: int) -> list[tuple[int, int]]:
        """Return the end of the verified order, newest last."""
        order = array("I", self.order)
        names: list[tuple[int, int]] = []
        at = len(order) - 3
        while at >= 0 and len(names) < count:
            writer, first, last = order[at : at + 3]
            low = max(first, last - (count - len(names)) + 1)
            names.extend((writer, seq) for seq in range(last, low - 1, -1))
            at -= 3
        names.reverse()
        return names

    def stand(self, names: Iterable[tuple[int, int]]) -> None:
        """Append to the verified order."""
        order = array("I", self.order)
        for writer, first, last in runs_of(names):
            if len(order) and order[-3] == writer and order[-1] == first - 1:
                order[-1] = last
            else:
                order.extend((writer, first, last))
            self.writers[writer].standing.add_run(first, last)
            self.length += last - first + 1
        self.order = order.tobytes()

    def restand(self, names: list[tuple[int, int]]) -> None:
        """Replace the verified order, after a read that differs from it."""
        for book in self.writers:
            book.standing = Intervals()
        self.order = b""
        self.length = self.hashed = 0
        self.digest = b""
        self.stand(names)


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


_encoder = msgspec.msgpack.Encoder()


def digest_of(items: Iterable[Stored]) -> bytes:
    """Return a digest that only the same items have; empty, like no other, if one of them cannot be a message."""
    try:
        return xxh3_128_digest(_encoder.encode(items))
    except (TypeError, ValueError, OverflowError):
        return b""


def united(one: Intervals, other: Intervals) -> Intervals:
    """Return the union; the first set is changed in place unless it is the shared empty one."""
    if not other:
        return one
    if one is NOTHING:
        return other.copy()
    one.update(other)
    return one
