"""What may rightly be gone, and what must be: forgets, times to live, windows, eviction."""

from __future__ import annotations

from soak.model.book import SessionBook, Span
from soak.model.contract import Expiry
from soak.model.intervals import Intervals
from soak.model.outcome import Outcome
from soak.model.read import Place, Read, Rules


def must_be_forgotten(book: SessionBook, at: int, rules: Rules) -> bool:
    """Whether a read at this time may no longer show what was forgotten; a stale one may, for as long as promised."""
    forgetting, staleness = book.forgetting, rules.contract.staleness_us
    if forgetting is None or forgetting.outcome is not Outcome.OK or staleness is None:
        return False
    return at > forgetting.ended + staleness + rules.clock_epsilon_us


def expiry_overdue(book: SessionBook, read: Read, rules: Rules) -> int:
    """Return by how many microseconds the session should have expired before the read, or 0."""
    ttl = rules.contract.ttl_seconds
    # An unknown append may have prolonged the life of the session, and so may one that is still under way.
    if ttl is None or book.span is None or not book.closed or any(writer.unknown for writer in book.writers):
        return 0
    if rules.contract.staleness_us is None:
        return 0  # a read may show what was, for ever
    if rules.contract.expiry is Expiry.ABSOLUTE and book.forget_in_doubt:
        return 0  # it may have ended this life at any time, and the next append may have begun another
    return max(0, read.invoked - _latest_end(book.span, rules) - rules.contract.staleness_us)


def must_have_expired(book: SessionBook, at: int, rules: Rules) -> bool:
    """Whether a session to which nothing was appended since must be gone at this time."""
    return rules.contract.ttl_seconds is not None and book.span is not None and at > _latest_end(book.span, rules)


def expiry_of(book: SessionBook, rules: Rules) -> tuple[int, int] | None:
    """Return until when a session must be there, and after when it must be gone; None if it does not expire."""
    if rules.contract.ttl_seconds is None or book.span is None:
        return None
    return _earliest_end(book.span, rules), _latest_end(book.span, rules) + (rules.contract.staleness_us or 0)


def _earliest_end(span: Span, rules: Rules) -> int:
    base = span.last_sent if rules.contract.expiry is Expiry.SLIDING else span.first_sent
    return base + int((rules.contract.ttl_seconds or 0.0) * 1e6) - rules.ttl_epsilon_us - rules.clock_epsilon_us


def _latest_end(span: Span, rules: Rules) -> int:
    base = span.last_ended if rules.contract.expiry is Expiry.SLIDING else span.first_ended
    return base + int((rules.contract.ttl_seconds or 0.0) * 1e6) + rules.ttl_epsilon_us + rules.clock_epsilon_us


def may_have_expired(book: SessionBook, at: int, rules: Rules) -> bool:
    """Whether the contract's time to live allows that the session is gone at this time."""
    return rules.contract.ttl_seconds is not None and book.span is not None and at >= _earliest_end(book.span, rules)


def absences(
    book: SessionBook, read: Read, names: list[Place], rules: Rules
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Return what is acknowledged and absent, split into what is suspicious and what is rightly gone."""
    present: dict[int, Intervals] = {}
    for writer, seq in names:
        present.setdefault(writer, Intervals()).add(seq)
    absent: dict[int, Intervals] = {}
    excused: dict[int, Intervals] = {}
    # Where no append was ever recorded (its worker died), what was seen may have been sent at any time.
    is_dateless = rules.contract.ttl_seconds is not None and book.span is None
    may_be_over = is_dateless or may_have_expired(book, read.returned, rules)
    allowed = book.forget_in_doubt or rules.contract.eviction_allowed or may_be_over
    # Whatever stands there takes up a place, a permitted repeat as well as a message.
    trimmed = rules.contract.retained_messages is not None and len(read.items) >= rules.contract.retained_messages
    for number, acked in read.acked.items():
        book_of_writer = book.writers[number]
        here = present.get(number) or Intervals()
        missing = acked.minus(here).minus(book_of_writer.excused)
        if not missing:
            continue
        if allowed:
            excused[number] = missing
            continue
        if trimmed:
            # A late unknown write stands at the end of the window and says nothing about where it begins.
            ordered = here.minus(book_of_writer.unknown)
            oldest = ordered.bounds[0] if ordered else missing.largest + 1
            old = missing.minus(Intervals([oldest, max(oldest, missing.largest)]))
            if old:
                excused[number] = old
                missing = missing.minus(old)
        if missing:
            absent[number] = missing
    return absent, excused
