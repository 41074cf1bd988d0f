"""Taking a judged read into the book: what it showed is verified, and becomes the base of the next one.

Times of messages that a crash may still take are remembered: each of the last minutes, and of what is older one now and
then. A contract that allows an hour to be lost must not make the verifier remember every message of an hour. A writer
sends one message after the other, so the next one whose time is known tells how old a message is at least; and the
first and the last of a short time tell of each in between how old it is at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from soak.checker.expected_session import (
    IN_FLIGHT_GRACE_US,
    NO_ATTEMPTS,
    NOTHING,
    ExpectedSession,
    Unsettled,
    digest_of,
    names_in,
    united,
)
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt
from soak.checker.read import Judgement, MessageId, Read, Rules, Run, names_of
from soak.checker.retention import has_run_out

EXACT_SECONDS = 120.0
EXACT_US = int(EXACT_SECONDS * 1e6)
SLOT_SECONDS = 15.0
SLOT_US = int(SLOT_SECONDS * 1e6)


def thinned(attempts: Iterable[Attempt], exact_since: int) -> list[Attempt]:
    """Keep every attempt since then, and of the older ones the first and the last of each writer in each slot."""
    older: dict[tuple[int, int], tuple[Attempt, Attempt]] = {}
    exact: list[Attempt] = []
    for attempt in attempts:
        if attempt.ended >= exact_since:
            exact.append(attempt)
            continue
        slot = (attempt.writer, attempt.ended // SLOT_US)
        first, last = older.get(slot, (attempt, attempt))
        older[slot] = (min(first, attempt, key=_seq), max(last, attempt, key=_seq))
    return [*(one for first, last in older.values() for one in dict.fromkeys((first, last))), *exact]


def next_known(attempts: Iterable[Attempt], place: MessageId) -> Attempt | None:
    """Return the first attempt of the same writer that came after a message and whose times are known."""
    later = [attempt for attempt in attempts if attempt.writer == place[0] and attempt.seq > place[1]]
    return min(later, key=_seq, default=None)


def thinned_out(attempts: Sequence[Attempt], place: MessageId) -> Attempt | None:
    """Return the next attempt that is known, if a message was left out between two of one slot; None: it is older."""
    earlier = [attempt for attempt in attempts if attempt.writer == place[0] and attempt.seq < place[1]]
    before, after = max(earlier, key=_seq, default=None), next_known(attempts, place)
    if before is None or after is None or before.ended // SLOT_US != after.ended // SLOT_US:
        return None
    return after


def _seq(attempt: Attempt) -> int:
    return attempt.seq


RECENT_MAX = 8_192
"""Verified messages of a session whose times are all remembered, at most."""


VEILED_MAX = 10_000


class Absorbed(NamedTuple):
    """What a read settled of the acknowledgements that nobody had looked at yet."""

    verified: int
    spoiled: int
    released: int
    """Rightly gone."""


def absorb(
    book: ExpectedSession,
    judgement: Judgement,
    read: Read,
    rules: Rules,
    *,
    remember_us: int,
    exact_us: int | None = None,
    whole: bool = True,
) -> Absorbed:
    """Take a judged read into the book.

    Times of verified messages are remembered for `remember_us`, because a crash may still take those; beyond
    `exact_us` only some of them. A read that is not `whole` adds to what is verified, but only a whole one can be
    digested.
    """
    _note_glimpsed(book, judgement, read)
    _note_late_arrivals(book, judgement.fresh, read, rules)
    if judgement.absent:
        _count_missed_as_seen(book, judgement)
    # In a history without an order what was verified before may stand behind what waits for an outcome now.
    shown = set(book.names_in_order()) if judgement.replaces and judgement.unsettled else set()
    shown |= in_front_of_tail(book, judgement)
    if judgement.replaces:
        _veil(book, judgement)
        book.restand_runs(judgement.fresh)
    else:
        book.stand_runs(judgement.fresh)
    for number, seqs in judgement.excused.items():
        book.writers[number].excuse(seqs)
    _end_excuses(book, judgement, read, rules)
    for number, seq in judgement.spoiled:
        if seq not in book.writers[number].standing:
            book.writers[number].excuse(Intervals([seq, seq]))
            book.explained += 1
    unreadable = sum(one.kind is Kind.UNDECODABLE for one in judgement.findings)
    book.unexplained = max(0, unreadable - book.explained)
    absorbed = _settle_pending(book, judgement.spoiled, read.returned - remember_us)
    if book.recent and exact_us is not None and book.recent[0].ended < read.returned - exact_us:
        book.recent = thinned(book.recent, read.returned - exact_us)
    if len(book.recent) > RECENT_MAX:
        # Thinned out, and never cut: whose times are gone would count as too old for a crash to take.
        book.recent = thinned(book.recent, book.recent[-RECENT_MAX // 2].ended)
    _remember_unsettled(book, judgement, read, rules.contract.staleness_us, shown)
    book.dirty = book.shown_late = book.revived = None
    book.last_read, book.last_returned, book.last_items = read.invoked, read.returned, len(read.items)
    book.overlooked = _told_meanwhile(book, read) if book.pending else None
    if whole:
        book.last_whole = read.invoked
    if whole and book.hashed != book.length:
        _digest(book, judgement, read)
    return absorbed


def in_front_of_tail(book: ExpectedSession, judgement: Judgement) -> set[MessageId]:
    """Return what stands in front of all that the last read asked for: a read of the end does not lack that."""
    first = book.first_of_tail if judgement.replaces else None
    if first is None:
        return set()
    names = [*names_in(judgement.fresh), *judgement.unsettled]
    return set(names[: names.index(first)]) if first in names else set()


def _note_glimpsed(book: ExpectedSession, judgement: Judgement, read: Read) -> None:
    """Keep in mind what was seen in flight and is gone, for as long as its outcome is waited for: it may be refused."""
    if book.unsettled is None and book.glimpsed is None:
        return
    here = {*names_in(judgement.fresh), *judgement.unsettled}
    gone = [
        (one.writer, one.seq, one.since)
        for one in book.unsettled or ()
        if (one.writer, one.seq) not in here and book.writers[one.writer].is_in_flight(one.seq)
    ]
    awaited = [one for one in (*(book.glimpsed or ()), *gone) if read.invoked - one[2] <= IN_FLIGHT_GRACE_US]
    book.glimpsed = awaited[-VEILED_MAX:] or None


def _veil(book: ExpectedSession, judgement: Judgement) -> None:
    """Keep in mind what earlier reads had shown and this one lacks, until it is decided whether it may."""
    if not judgement.is_undecided:
        book.veiled = None
        return
    here = {*names_in(judgement.fresh), *judgement.unsettled}
    seen = {(number, seq): at for number, seq, at in book.veiled or ()}
    seen |= dict.fromkeys((*book.names_in_order(), *book.unsettled_names()), book.last_read)
    book.veiled = [(*place, at) for place, at in seen.items() if place not in here][:VEILED_MAX] or None


def _note_late_arrivals(book: ExpectedSession, fresh: list[Run], read: Read, rules: Rules) -> None:
    """Count an unknown write that is seen as acknowledged from now on.

    What a read shows as it was before a forget had ended may be erased by it: that need not be there again.
    """
    may_be_erased = _may_show_the_forgotten(book, read, rules.contract.staleness_us)
    for number, first, last in fresh:
        writer = book.writers[number]
        if writer.acked.covers(first, last):
            continue
        late = Intervals([first, last]).minus(writer.acked)
        writer.unknown = united(writer.unknown, late)
        writer.acked.update(late)
        if may_be_erased:
            writer.excuse(late)
        for one in book.recent:
            if one.writer == number and one.seq in late and one.sent > book.latest_sent:
                book.latest_sent, book.latest_writer, book.latest_seq = one.sent, one.writer, one.seq
        if book.span is not None:
            _prolong(book, number, late, read, rules)


def _prolong(book: ExpectedSession, writer: int, seqs: Intervals, read: Read, rules: Rules) -> None:
    """Note that unknown writes were applied: each when it was sent at the earliest, and by now."""
    if book.span is None:
        return
    # If the life of the session may have run out before, one of them may have begun another.
    is_one_life = not has_run_out(book, read.returned, rules)
    sent = [one.sent for one in book.recent if one.writer == writer and one.seq in seqs] if is_one_life else []
    book.span = book.span._replace(
        last_sent=max([book.span.last_sent, *sent]), last_ended=max(book.span.last_ended, read.returned)
    )


def _may_show_the_forgotten(book: ExpectedSession, read: Read, staleness_us: int | None) -> bool:
    """Whether a read may show the session as it was before a forget."""
    ended = 0 if book.forgets is None else book.forgets.ended
    return ended > 0 and (staleness_us is None or read.invoked - staleness_us <= ended)


def _settle_pending(book: ExpectedSession, spoiled: set[MessageId], forget_before: int) -> Absorbed:
    """Take what is settled out of what waits."""
    waiting: list[Attempt] = []
    seen: list[Attempt] = []
    let_go: list[Attempt] = []
    bad = 0
    latest, latest_sent = None, book.latest_sent
    low = [min(writer.standing.bounds[-2:], default=1) for writer in book.writers]
    high = [writer.standing.largest for writer in book.writers]
    for attempt in book.pending:
        number, seq = attempt.writer, attempt.seq
        # What waits is the end of what is there, so the last run is looked at first.
        if low[number] <= seq <= high[number] or seq in book.writers[number].standing:
            seen.append(attempt)
            if attempt.sent > latest_sent:
                latest, latest_sent = attempt, attempt.sent
        elif seq not in book.writers[number].excused:
            waiting.append(attempt)
        else:
            let_go.append(attempt)
    if latest is not None:
        book.latest_sent, book.latest_writer, book.latest_seq = latest.sent, latest.writer, latest.seq
    if spoiled:
        bad = sum(1 for attempt in book.pending if (attempt.writer, attempt.seq) in spoiled)
    verified = sum(1 for attempt in seen if (attempt.writer, attempt.seq) not in spoiled) if spoiled else len(seen)
    released = len(book.pending) - len(waiting) - verified - bad
    book.pending = waiting or NO_ATTEMPTS
    if seen or let_go or (book.recent and book.recent[0].ended < forget_before):
        book.recent = [one for one in (*book.recent, *seen, *let_go) if one.ended >= forget_before] or NO_ATTEMPTS
    return Absorbed(verified, bad, released)


def _remember_unsettled(
    book: ExpectedSession, judgement: Judgement, read: Read, staleness_us: int | None, shown: set[MessageId]
) -> None:
    """Remember what is seen and not settled, in its order, each since when a read has shown it."""
    was_blind, book.is_blind = book.is_blind, _may_show_the_forgotten(book, read, staleness_us)
    if book.is_blind and judgement.unsettled:
        # Seen is seen, if it is refused.
        in_flight = [place for place in judgement.unsettled if book.writers[place[0]].is_in_flight(place[1])]
        book.glimpsed = [*(book.glimpsed or ()), *((*place, read.invoked) for place in in_flight)] or None
    if not judgement.unsettled or book.is_blind:
        book.unsettled = None
        return
    lacked = (0, 0) if was_blind else (book.last_read, book.last_returned)
    known = {(one.writer, one.seq): one for one in book.unsettled or ()}
    book.unsettled = [
        known.get(place) or Unsettled(*place, read.invoked, *((0, 0) if place in shown else lacked))
        for place in judgement.unsettled
    ]


def _told_meanwhile(book: ExpectedSession, read: Read) -> list[Attempt] | None:
    """Return what was acknowledged before a read that lacks it, where the outcome came while the read was under way."""
    return [
        one
        for one in book.pending
        if one.ended <= read.invoked and one.seq not in read.acked.get(one.writer, NOTHING) and book.was_overlooked(one)
    ] or None


def _count_missed_as_seen(book: ExpectedSession, judgement: Judgement) -> None:
    """Count as acknowledged what was seen before its outcome is known, and is missing now: it must not be forgotten."""
    for number, seqs in judgement.absent.items():
        writer = book.writers[number]
        late = seqs.minus(writer.acked)
        if late:
            writer.unknown = united(writer.unknown, late)
            writer.acked.update(late)


def _end_excuses(book: ExpectedSession, judgement: Judgement, read: Read, rules: Rules) -> None:
    """Expect again what raced with a forget that has happened, and is shown behind it: it was not erased."""
    forgets, staleness = book.forgets, rules.contract.staleness_us
    if forgets is None or not forgets.is_certain or staleness is None or rules.contract.drops_by_itself:
        return
    if read.invoked <= forgets.ended + staleness + rules.clock_epsilon_us:
        return
    for number, first, last in judgement.fresh:
        writer = book.writers[number]
        if writer.excused:
            writer.excused = writer.excused.minus(Intervals([first, last]))


def _digest(book: ExpectedSession, judgement: Judgement, read: Read) -> None:
    book.hashed, book.digest = 0, b""
    items = read.items[: book.length]
    if judgement.findings or len(items) < book.length:
        return
    # With permitted repeats among them, the first so many items are not the so many verified messages.
    if judgement.replaces and names_of(items) != list(book.names_in_order()):
        return
    is_made = judgement.digest and len(items) == len(read.items)
    book.hashed, book.digest = book.length, judgement.digest if is_made else digest_of(items)
