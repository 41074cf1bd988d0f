"""Taking a forget into the book: what it has erased must not be seen again, and what it may have is not missed."""

from __future__ import annotations

from collections.abc import Iterable

from soak.checker.attempt import Attempt
from soak.checker.expected_session import ExpectedSession
from soak.checker.forgets import Forgets
from soak.checker.intervals import Intervals
from soak.checker.outcome import Outcome
from soak.checker.span import NEVER, Span
from soak.checker.writer_book import NOTHING, united


def end_forget(
    book: ExpectedSession,
    outcome: Outcome,
    sent: int,
    ended: int,
    *,
    behind_us: int | None = 0,
    ends_excuses: bool = True,
    is_applied_once: bool = True,
) -> None:
    """Take in how a forget ended.

    A full read that was invoked more than `behind_us` after it shows what it has left; None: no read does for certain.
    What raced with it and was left is expected again, where that `ends_excuses`. Unless an append `is_applied_once`, one
    without an outcome may be applied again after a read has shown it.
    """
    forgets = book.forgets or Forgets()
    intent = max((other for other in forgets.open if other <= sent), default=None)
    forgets.open = [other for other in forgets.open if other != intent]
    is_news = outcome is Outcome.OK and forgets.happened(sent, ended)
    forgets.may_happen = forgets.may_happen or (sent if outcome is Outcome.UNKNOWN else 0)
    book.forgets = forgets if forgets.ended or forgets.is_in_doubt else None
    if outcome is Outcome.UNKNOWN:
        for writer in book.writers:
            writer.excuse(writer.acked)
        book.veiled = None
    elif is_news:
        _erase(book, forgets, is_applied_once=is_applied_once)
        shows_since = NEVER if behind_us is None else forgets.ended + behind_us
        _keep_what_is_left(book, forgets, shows_since, ends_excuses=ends_excuses)
    book.drop_excused()


def _erase(book: ExpectedSession, forgets: Forgets, *, is_applied_once: bool) -> None:
    """Expect no longer what a forget has erased, or may have."""
    if is_applied_once and book.last_returned < forgets.sent:
        # What a read had shown by then was applied, whatever its outcome.
        for writer in book.writers:
            writer.gone = united(writer.gone, writer.standing)
        for number, seq in book.unsettled_names():
            book.writers[number].gone = united(book.writers[number].gone, Intervals([seq, seq]))
    known = (*book.recent, *book.pending)
    behind = [one for one in known if one.sent > forgets.ended]
    if book.span is not None:
        book.span = _span_behind(book, book.span, known, behind)
    for number, writer in enumerate(book.writers):
        racing = Intervals.of(sorted(one.seq for one in known if one.writer == number and one.ended >= forgets.sent))
        later = Intervals.of(sorted(one.seq for one in behind if one.writer == number))
        writer.gone = united(writer.gone, writer.acked.minus(racing).minus(writer.unknown))
        writer.excuse(writer.acked.minus(later))


def _span_behind(book: ExpectedSession, span: Span, known: Iterable[Attempt], behind: Iterable[Attempt]) -> Span:
    """Return the life that begins behind a forget: with the next append, or with one that may have come after it."""
    forgets = book.forgets
    unseen = {(n, seq) for n, one in enumerate(book.writers) for seq in one.unknown.minus(one.acked)}
    may_begin = [
        one for one in known if forgets is None or one.ended >= forgets.sent or (one.writer, one.seq) in unseen
    ]
    first_ended = min((one.ended for one in behind), default=NEVER)
    if unseen - {(one.writer, one.seq) for one in may_begin}:
        return span._replace(first_ended=first_ended)  # one of them may be older than any time that is known
    return span._replace(first_sent=min((one.sent for one in may_begin), default=NEVER), first_ended=first_ended)


def _keep_what_is_left(book: ExpectedSession, forgets: Forgets, shows_since: int, *, ends_excuses: bool) -> None:
    """Keep of what reads have shown only what a forget was seen to have left."""
    standing = list(book.names_in_order())
    is_behind = shows_since < book.last_whole
    shown = [*standing, *((number, seq) for number, seq, at in book.veiled or () if shows_since < at)]
    if is_behind:
        book.revived = [(number, seq) for number, seq in shown if seq in book.writers[number].gone] or None
    left = [place for place in standing if is_behind and place[1] not in book.writers[place[0]].gone]
    book.veiled = [
        (number, seq, at)
        for number, seq, at in book.veiled or ()
        if shows_since < at and seq not in book.writers[number].gone
    ] or None
    for number, seq in (*left, *book.veiled_names()) if ends_excuses else ():
        writer = book.writers[number]
        writer.excused = writer.excused.minus(Intervals([seq, seq]))
    if not is_behind:
        for number, seq in book.unsettled_names():
            book.writers[number].excuse(Intervals([seq, seq]))
        book.unsettled = None
    book.is_blind = not is_behind
    book.overlooked = book.shown_late = None
    book.replace_verified(left)


def undo(book: ExpectedSession, since: int, until: int) -> None:
    """Take in that a fault may have undone what was done then: a forget, or that a life began or was prolonged."""
    forgets, span = book.forgets, book.span
    if forgets is not None and forgets.is_certain and since <= forgets.ended <= until:
        forgets.is_undone = True
        for writer in book.writers:
            writer.gone = NOTHING
    if span is not None and since <= span.first_ended <= until:
        span = book.span = span._replace(first_ended=NEVER)
    if span is not None and since <= span.last_ended and span.last_sent <= until:
        book.span = span._replace(last_sent=span.first_sent if span.first_sent < NEVER else 0)
