"""How long a session lives under a time to live: until when it must be there, and after when it must be gone.

Life begins at the first attempt that may have been applied, and is prolonged by each where it is sliding. Between the
earliest and the latest end nothing is claimed.
"""

from __future__ import annotations

from soak.checker.attempt import Attempt
from soak.checker.contract import Expiry
from soak.checker.expected_session import ExpectedSession
from soak.checker.intervals import Intervals
from soak.checker.read import Read, Rules
from soak.checker.span import NEVER, Span

# -- what appends say --


def prolong(book: ExpectedSession, attempt: Attempt, rules: Rules) -> None:
    """Excuse what may have expired before this append began a new life of the session."""
    if book.forgets is not None and book.forgets.has_erased(attempt.ended):
        return  # it is told late, and belongs to a life that is over
    if has_run_out(book, attempt.ended, rules):
        for writer in book.writers:
            writer.excuse(writer.acked)
        mine = (attempt.writer, attempt.seq)
        for number, seq in (*book.unsettled_names(), *book.veiled_names()):
            if (number, seq) != mine:
                book.writers[number].excuse(Intervals([seq, seq]))
        book.unsettled = [one for one in book.unsettled or () if (one.writer, one.seq) == mine] or None
        book.veiled = None
        book.is_blind = True
        book.drop_excused()
        # From here on it may be a new life, whose end is counted from this append.
        book.span = _restarted(book, attempt, rules)
        return
    if book.span is not None and attempt.sent <= book.span.reborn:
        # It was under way when the new life began, and may have been the last thing said in the old one.
        book.writer(attempt.writer).excuse(Intervals([attempt.seq, attempt.seq]))
        if attempt.ended < book.span.reborn:
            return  # it is told late, and belongs to the old one
    extend(book, attempt)


def extend(book: ExpectedSession, attempt: Attempt) -> None:
    """Note when the session was last appended to, where its life depends on it."""
    may_be_erased = book.forgets is not None and attempt.sent <= book.forgets.ended
    begun = NEVER if may_be_erased else attempt.ended
    span = book.span or Span(attempt.sent, begun, attempt.sent, attempt.ended)
    # Of several appends under way at once any may have been applied first, but none after the first answer. One that
    # raced with a forget may have been erased by it, and begun nothing.
    book.span = Span(
        min(span.first_sent, attempt.sent),
        span.first_ended if may_be_erased else min(span.first_ended, attempt.ended),
        max(span.last_sent, attempt.sent),
        max(span.last_ended, attempt.ended),
        span.reborn,
    )


def _restarted(book: ExpectedSession, attempt: Attempt, rules: Rules) -> Span:
    """Begin a new life with this append; if the old one may go on, it may also end when that would have.

    An unknown append may have begun one at any time since it was sent.
    """
    unseen = {(n, seq) for n, writer in enumerate(book.writers) for seq in writer.unknown.minus(writer.acked)}
    known = {(one.writer, one.seq): one.sent for one in book.recent if (one.writer, one.seq) in unseen}
    first_sent = min([attempt.sent, *known.values()])
    if book.span is not None and (len(known) < len(unseen) or not must_have_expired(book, attempt.sent, rules)):
        first_sent = book.span.first_sent
    return Span(first_sent, attempt.ended, attempt.sent, attempt.ended, reborn=attempt.ended)


def begin_no_later(book: ExpectedSession, attempt: Attempt) -> None:
    """Note that the life of the session may have begun with an append whose outcome is unknown."""
    if book.span is not None:
        book.span = book.span._replace(first_sent=min(book.span.first_sent, attempt.sent))
    else:
        # It may not have happened at all, or not yet: it promises nothing about until when the session lives.
        book.span = Span(attempt.sent, NEVER, 0, attempt.ended)


# -- when it is over --


def expiry_overdue(book: ExpectedSession, read: Read, rules: Rules) -> int:
    """Return by how many microseconds the session should have expired before the read, or 0."""
    ttl = rules.contract.ttl_seconds
    # An unknown append may have prolonged the life of the session, and so may one that is still under way.
    if ttl is None or book.span is None or not book.closed or _may_be_prolonged(book, rules):
        return 0
    if rules.contract.staleness_us is None:
        return 0  # a read may show what was, for ever
    latest, forgets = _latest_end(book.span, rules), book.forgets
    if forgets is not None and forgets.is_in_doubt and forgets.in_doubt_since <= book.span.last_ended:
        # It may have ended this life, and any append since may have begun another.
        latest = _latest_end(book.span._replace(first_ended=NEVER), rules)
    return max(0, read.invoked - latest - rules.contract.staleness_us)


def _may_be_prolonged(book: ExpectedSession, rules: Rules) -> bool:
    """Whether an unknown append may yet prolong a life, or begin one: until a read has shown it, at any time."""
    if rules.contract.expiry is Expiry.ABSOLUTE:
        return any(writer.unknown for writer in book.writers)
    return any(writer.unknown and writer.unknown.minus(writer.acked) for writer in book.writers)


def must_have_expired(book: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether a session to which nothing was appended since must be gone at this time."""
    return rules.contract.ttl_seconds is not None and book.span is not None and at > _latest_end(book.span, rules)


def expiry_of(book: ExpectedSession, rules: Rules) -> tuple[int, int] | None:
    """Return until when a session must be there, and after when it must be gone; None if it does not expire."""
    if rules.contract.ttl_seconds is None or book.span is None:
        return None
    return earliest_end(book.span, rules), _latest_end(book.span, rules) + (rules.contract.staleness_us or 0)


def earliest_end(span: Span, rules: Rules) -> int:
    base = span.last_sent if rules.contract.expiry is Expiry.SLIDING else span.first_sent
    return base + int((rules.contract.ttl_seconds or 0.0) * 1e6) - rules.ttl_epsilon_us - rules.clock_epsilon_us


def _latest_end(span: Span, rules: Rules) -> int:
    is_begin_known = rules.contract.expiry is Expiry.ABSOLUTE and span.first_ended != NEVER
    base = span.first_ended if is_begin_known else span.last_ended
    return base + int((rules.contract.ttl_seconds or 0.0) * 1e6) + rules.ttl_epsilon_us + rules.clock_epsilon_us


def may_have_expired(book: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether the contract's time to live allows that the session is gone at this time."""
    return has_run_out(book, at, rules) or may_have_begun_untold(book, rules)


def has_run_out(book: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether the life of the session, as far as it is known when it began, may be over at this time."""
    return rules.contract.ttl_seconds is not None and book.span is not None and at >= earliest_end(book.span, rules)


def may_have_begun_untold(book: ExpectedSession, rules: Rules) -> bool:
    is_absolute = rules.contract.ttl_seconds is not None and rules.contract.expiry is Expiry.ABSOLUTE
    return is_absolute and book.span is not None and _is_begin_untold(book)


def _is_begin_untold(book: ExpectedSession) -> bool:
    """Whether an append of which no outcome ever came may have begun the life of the session."""
    is_one_life = book.forgets is None and (book.span is None or not book.span.reborn)
    known = {(one.writer, one.seq) for one in (*book.recent, *book.pending)}
    if not is_one_life and any(place not in known for place in (*book.unsettled_names(), *book.veiled_names())):
        return True  # nobody knows when that was sent
    for writer in book.writers:
        applied = writer.acked.copy()
        applied.update(writer.unknown)
        until = applied.bounds[0] - 1 if applied and is_one_life else applied.largest
        if until and Intervals([1, until]).minus(applied).minus(writer.failed):
            return True
    return False
