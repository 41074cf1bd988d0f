"""Taking a judged read into the book: what it showed is verified, and becomes the base of the next one."""

from __future__ import annotations

from typing import NamedTuple

from soak.model.attempt import Attempt
from soak.model.book import NO_ATTEMPTS, RECENT_MAX, SessionBook, digest_of, runs_of, united
from soak.model.intervals import Intervals
from soak.model.read import Judgement, Place, Read, names_of
from soak.model.remembered import thinned


class Absorbed(NamedTuple):
    """What a read settled of the acknowledgements that nobody had looked at yet."""

    verified: int
    spoiled: int
    released: int
    """Rightly gone."""


def absorb(
    book: SessionBook,
    judgement: Judgement,
    read: Read,
    *,
    remember_us: int,
    exact_us: int | None = None,
    staleness_us: int | None = 0,
    whole: bool = True,
) -> Absorbed:
    """Take a judged read into the book.

    Times of verified messages are remembered for `remember_us`, because a crash may still take those; beyond
    `exact_us` only some of them. A read that is not `whole` adds to what is verified, but only a whole one can be
    digested. `staleness_us` is how far the read may have been behind; None: any time.
    """
    _note_late_arrivals(book, judgement.fresh, read, staleness_us)
    if judgement.replaces:
        book.restand(judgement.fresh)
    else:
        book.stand(judgement.fresh)
    for number, seqs in judgement.excused.items():
        book.writers[number].excuse(seqs)
    for number, seq in judgement.spoiled:
        if seq not in book.writers[number].standing:
            book.writers[number].excuse(Intervals([seq, seq]))
            book.explained += 1
    absorbed = _settle_pending(book, judgement.spoiled, read.returned - remember_us)
    if exact_us is not None and book.recent and book.recent[0].ended < read.returned - exact_us:
        book.recent = thinned(book.recent, read.returned - exact_us)
    _await(book, judgement, read)
    if whole and book.hashed != book.length:
        _digest(book, judgement, read)
    return absorbed


def _note_late_arrivals(book: SessionBook, fresh: list[Place], read: Read, staleness_us: int | None) -> None:
    """Count an unknown write that is seen as acknowledged from now on.

    What a read shows as it was before a forget had ended may be erased by it: that need not be there again.
    """
    forgetting = book.forgetting
    may_be_erased = forgetting is not None and (
        not forgetting.ended or staleness_us is None or read.invoked - staleness_us <= forgetting.ended
    )
    for number, first, last in runs_of(fresh):
        writer = book.writers[number]
        if writer.acked.covers(first, last):
            continue
        late = Intervals([first, last]).minus(writer.acked)
        writer.unknown = united(writer.unknown, late)
        writer.acked.update(late)
        if may_be_erased:
            writer.excuse(late)


def _settle_pending(book: SessionBook, spoiled: set[Place], forget_before: int) -> Absorbed:
    """Take what is settled out of what waits."""
    waiting: list[Attempt] = []
    seen: list[Attempt] = []
    bad = 0
    for attempt in book.pending:
        writer = book.writers[attempt.writer]
        if attempt.seq in writer.standing:
            seen.append(attempt)
            if attempt.sent > book.latest_sent:
                book.latest_sent, book.latest_writer, book.latest_seq = attempt.sent, attempt.writer, attempt.seq
        elif attempt.seq not in writer.excused:
            waiting.append(attempt)
    if spoiled:
        bad = sum(1 for attempt in book.pending if (attempt.writer, attempt.seq) in spoiled)
    verified = sum(1 for attempt in seen if (attempt.writer, attempt.seq) not in spoiled) if spoiled else len(seen)
    released = len(book.pending) - len(waiting) - verified - bad
    if book.is_being_forgotten:
        # What has gone with it is told from what raced with it by its times, once the forget has ended.
        seen = [attempt for attempt in book.pending if attempt not in waiting]
    book.pending = waiting or NO_ATTEMPTS
    if seen or (book.recent and book.recent[0].ended < forget_before):
        recent = [attempt for attempt in (*book.recent, *seen) if attempt.ended >= forget_before]
        book.recent = recent[-RECENT_MAX:] or NO_ATTEMPTS
    return Absorbed(verified, bad, released)


def _await(book: SessionBook, judgement: Judgement, read: Read) -> None:
    """Remember since when each message that is seen waits for its outcome."""
    if not judgement.awaited:
        book.awaited = None
        return
    known = book.awaited or {}
    names = [f"{number}/{seq}" for number, seq in judgement.awaited]
    book.awaited = {name: known.get(name, read.invoked) for name in names}


def _digest(book: SessionBook, judgement: Judgement, read: Read) -> None:
    book.hashed, book.digest = 0, b""
    items = read.items[: book.length]
    if judgement.findings or len(items) < book.length:
        return
    # With permitted repeats among them, the first so many items are not the so many verified messages.
    if judgement.replaces and names_of(items) != list(book.names_in_order()):
        return
    book.hashed, book.digest = book.length, digest_of(items)
