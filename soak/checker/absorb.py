"""Taking a judged read into the book: what it showed is verified, and becomes the base of the next one.

Times of messages that a crash may still take are remembered: each of the last minutes, and of what is older one now and
then. A contract that allows an hour to be lost must not make the verifier remember every message of an hour. A writer
sends one message after the other, so the next one whose time is known tells how old a message is at least; and the
first and the last of a short time tell of each in between how old it is at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from soak.checker.contract import Duplicates
from soak.checker.expected_session import (
    IN_FLIGHT_GRACE_US,
    NO_ATTEMPTS,
    NOTHING,
    ExpectedSession,
    Unsettled,
    digest_of,
    names_in,
    runs_of,
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
    expected: ExpectedSession,
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
    is_usual = _is_usual(expected, judgement)
    _note_glimpsed(expected, judgement, read)
    _note_late_arrivals(expected, judgement.fresh, read, rules)
    shown: set[MessageId] = set()
    veiled = expected.veiled_names()
    if is_usual:
        expected.stand_runs(judgement.fresh)
    else:
        shown = _stand_and_excuse(expected, judgement, read, rules)
    absorbed = _settle_pending(expected, judgement.spoiled, read.returned - remember_us)
    if expected.recent and exact_us is not None and expected.recent[0].ended < read.returned - exact_us:
        expected.recent = thinned(expected.recent, read.returned - exact_us)
    if len(expected.recent) > RECENT_MAX:
        # Thinned out, and never cut: whose times are gone would count as too old for a crash to take.
        expected.recent = thinned(expected.recent, expected.recent[-RECENT_MAX // 2].ended)
    if not is_usual or judgement.unsettled or expected.unsettled is not None:
        _remember_unsettled(expected, judgement, read, rules, shown, veiled)
    if not is_usual:
        expected.dirty = expected.shown_late = expected.revived = None
        expected.is_order_open = False
    expected.last_read, expected.last_returned, expected.last_items = read.invoked, read.returned, len(read.items)
    expected.overlooked = _acknowledged_meanwhile(expected, read) if expected.pending else None
    if whole:
        expected.last_whole = read.invoked
    if whole and expected.hashed != expected.length:
        _digest(expected, judgement, read)
    return absorbed


def _is_usual(expected: ExpectedSession, judgement: Judgement) -> bool:
    """Whether nothing ever happened to the session, and the read only adds to it: most of them are like that."""
    return (
        expected.incidents is None
        and expected.forgets is None
        and not (judgement.replaces or judgement.findings or judgement.absent)
        and not (judgement.excused or judgement.spoiled)
    )


def _stand_and_excuse(expected: ExpectedSession, judgement: Judgement, read: Read, rules: Rules) -> set[MessageId]:
    """Take in what stands and what need not; returns what had been shown before, wherever it stands now."""
    if judgement.absent:
        _count_missed_as_seen(expected, judgement)
    # In a history without an order what was verified before may stand behind what waits for an outcome now.
    shown = set(expected.names_in_order()) if judgement.replaces and judgement.unsettled else set()
    shown |= in_front_of_tail(expected, judgement)
    if judgement.replaces:
        _veil(expected, judgement, read)
        expected.restand_runs(judgement.fresh)
    else:
        expected.stand_runs(judgement.fresh)
    for number, seqs in judgement.excused.items():
        expected.writers[number].excuse(seqs)
    for one in expected.unsettled or () if judgement.excused else ():
        writer = expected.writers[one.writer]
        if one.seq in writer.unknown and one.seq in writer.excused:
            writer.acked.add(one.seq)  # it was seen, and is rightly gone
    _end_excuses(expected, judgement, read, rules)
    for number, seq in judgement.spoiled:
        if seq not in expected.writers[number].standing:
            expected.writers[number].excuse(Intervals([seq, seq]))
            expected.explained += 1
    if expected.fronts is not None:
        unseen = [one for one in expected.fronts if one[1] not in expected.writers[one[0]].standing]
        expected.fronts = unseen or None
    unreadable = sum(one.kind is Kind.UNDECODABLE for one in judgement.findings)
    expected.unexplained = max(0, unreadable - expected.explained)
    return shown


def in_front_of_tail(expected: ExpectedSession, judgement: Judgement) -> set[MessageId]:
    """Return what stands in front of all that the last read asked for: a read of the end does not lack that."""
    first = expected.first_of_tail if judgement.replaces else None
    if first is None:
        return set()
    names = [*names_in(judgement.fresh), *judgement.unsettled]
    return set(names[: names.index(first)]) if first in names else set()


def _note_glimpsed(expected: ExpectedSession, judgement: Judgement, read: Read) -> None:
    """Keep in mind what was seen in flight and is gone, for as long as its outcome is waited for: it may be refused."""
    if expected.unsettled is None and expected.glimpsed is None:
        return
    here = {*names_in(judgement.fresh), *judgement.unsettled}
    gone = [
        (one.writer, one.seq, one.since)
        for one in expected.unsettled or ()
        if (one.writer, one.seq) not in here and expected.writers[one.writer].is_in_flight(one.seq)
    ]
    awaited = [one for one in (*(expected.glimpsed or ()), *gone) if read.invoked - one[2] <= IN_FLIGHT_GRACE_US]
    expected.glimpsed = awaited[-VEILED_MAX:] or None


def _veil(expected: ExpectedSession, judgement: Judgement, read: Read) -> None:
    """Keep in mind what earlier reads had shown and this one lacks, until it is decided whether it may.

    What is excused, too, while a forget is under way: it may turn out to have been shown behind that.
    """
    is_awaited = expected.forgets is not None and expected.forgets.is_awaited(read.returned)
    if not (judgement.is_undecided or is_awaited):
        expected.veiled = None
        return
    here = {*names_in(judgement.fresh), *judgement.unsettled}
    seen = {(number, seq): at for number, seq, at in expected.veiled or ()}
    seen |= dict.fromkeys((*expected.names_in_order(), *expected.unsettled_names()), expected.last_read)
    expected.veiled = [(*place, at) for place, at in seen.items() if place not in here][:VEILED_MAX] or None


def _note_late_arrivals(expected: ExpectedSession, fresh: list[Run], read: Read, rules: Rules) -> None:
    """Count an unknown write that is seen as acknowledged from now on.

    What a read shows as it was before a forget had ended may be erased by it: that need not be there again.
    """
    may_be_erased = _may_show_the_forgotten(expected, read, rules.contract.staleness_us)
    for number, first, last in fresh:
        writer = expected.writers[number]
        if writer.acked.covers(first, last):
            continue
        late = Intervals([first, last]).minus(writer.acked)
        writer.unknown = united(writer.unknown, late)
        writer.acked.update(late)
        if may_be_erased and expected.forgets is not None:
            known = [one for one in expected.recent if one.writer == number]
            spared = [one.seq for one in known if not expected.forgets.may_erase(one.sent)]
            writer.excuse(late.minus(Intervals.of(sorted(spared))))
        for one in expected.recent:
            if one.writer == number and one.seq in late and one.sent > expected.latest_sent:
                expected.latest_sent, expected.latest_writer, expected.latest_seq = one.sent, one.writer, one.seq
        if expected.span is not None:
            _prolong(expected, number, late, read, rules)


def _prolong(expected: ExpectedSession, writer: int, seqs: Intervals, read: Read, rules: Rules) -> None:
    """Note that unknown writes were applied: each when it was sent at the earliest, and by now."""
    if expected.span is None:
        return
    # If the life of the session may have run out before, one of them may have begun another.
    is_one_life = not has_run_out(expected, read.returned, rules)
    sent = [one.sent for one in expected.recent if one.writer == writer and one.seq in seqs] if is_one_life else []
    expected.span = expected.span._replace(
        last_sent=max([expected.span.last_sent, *sent]), last_ended=max(expected.span.last_ended, read.returned)
    )


def _may_show_the_forgotten(expected: ExpectedSession, read: Read, staleness_us: int | None) -> bool:
    """Whether a read may show the session as it was before a forget."""
    ended = 0 if expected.forgets is None else expected.forgets.ended
    return ended > 0 and (staleness_us is None or read.invoked - staleness_us <= ended)


def _settle_pending(expected: ExpectedSession, spoiled: set[MessageId], forget_before: int) -> Absorbed:
    """Take what is settled out of what waits."""
    waiting: list[Attempt] = []
    seen: list[Attempt] = []
    let_go: list[Attempt] = []
    bad = 0
    latest, latest_sent = None, expected.latest_sent
    # A set that is empty has no last run, and nothing is in it.
    runs = [writer.standing.bounds[-2:] or (1, 0) for writer in expected.writers]
    for attempt in expected.pending:
        number, seq = attempt.writer, attempt.seq
        # What waits is the end of what is there, so the last run is looked at first.
        low, high = runs[number]
        if low <= seq <= high or seq in expected.writers[number].standing:
            seen.append(attempt)
            if attempt.sent > latest_sent:
                latest, latest_sent = attempt, attempt.sent
        elif seq not in expected.writers[number].excused:
            waiting.append(attempt)
        else:
            let_go.append(attempt)
    if latest is not None:
        expected.latest_sent, expected.latest_writer, expected.latest_seq = latest.sent, latest.writer, latest.seq
    if spoiled:
        bad = sum(1 for attempt in expected.pending if (attempt.writer, attempt.seq) in spoiled)
    verified = sum(1 for attempt in seen if (attempt.writer, attempt.seq) not in spoiled) if spoiled else len(seen)
    released = len(expected.pending) - len(waiting) - verified - bad
    expected.pending = waiting or NO_ATTEMPTS
    if seen or let_go or (expected.recent and expected.recent[0].ended < forget_before):
        expected.recent = [
            one for one in (*expected.recent, *seen, *let_go) if one.ended >= forget_before
        ] or NO_ATTEMPTS
    return Absorbed(verified, bad, released)


def _remember_unsettled(
    expected: ExpectedSession,
    judgement: Judgement,
    read: Read,
    rules: Rules,
    shown: set[MessageId],
    veiled: list[MessageId],
) -> None:
    """Remember what is seen and not settled, in its order, each since when a read has shown it."""
    staleness_us = rules.contract.staleness_us
    was_blind, expected.is_blind = expected.is_blind, _may_show_the_forgotten(expected, read, staleness_us)
    expected.glanced = None
    if expected.is_blind and judgement.unsettled:
        # Seen is seen, if it is refused.
        in_flight = [place for place in judgement.unsettled if expected.writers[place[0]].is_in_flight(place[1])]
        expected.glimpsed = [*(expected.glimpsed or ()), *((*place, read.invoked) for place in in_flight)] or None
        # And what was sent after the forget was not erased by it. It stands in the order of the read: what later ones
        # show is compared with that.
        sent = {(one.writer, one.seq): one.sent for one in expected.recent}
        behind = [
            (*place, read.invoked)
            for place in judgement.unsettled
            if place in sent and expected.forgets is not None and not expected.forgets.may_erase(sent[place])
        ]
        expected.veiled = [*(expected.veiled or ()), *behind] or None
    if not judgement.unsettled:
        expected.unsettled = None
        return
    if expected.is_blind:
        if rules.contract.duplicates is Duplicates.EXACTLY_ONCE:
            expected.glanced = judgement.unsettled
        # What an earlier read had shown, which was not behind, stays as that one showed it.
        still = set(judgement.unsettled)
        expected.unsettled = [one for one in expected.unsettled or () if (one.writer, one.seq) in still] or None
        return
    lacked = (0, 0) if was_blind else (expected.last_read, expected.last_returned)
    known = {(one.writer, one.seq): one for one in expected.unsettled or ()}
    expected.unsettled = [
        known.get(place) or Unsettled(*place, read.returned, *((0, 0) if place in shown else lacked), place in veiled)
        for place in judgement.unsettled
    ]


def _acknowledged_meanwhile(expected: ExpectedSession, read: Read) -> list[Attempt] | None:
    """Return what was acknowledged before a read that lacks it, where the outcome came while the read was under way."""
    return [
        one
        for one in expected.pending
        if one.ended <= read.invoked
        and one.seq not in read.acked.get(one.writer, NOTHING)
        and expected.was_overlooked(one)
    ] or None


def _count_missed_as_seen(expected: ExpectedSession, judgement: Judgement) -> None:
    """Count as acknowledged what was seen before its outcome is known, and is missing now: it must not be forgotten."""
    for number, seqs in judgement.absent.items():
        writer = expected.writers[number]
        late = seqs.minus(writer.acked)
        if late:
            writer.unknown = united(writer.unknown, late)
            writer.acked.update(late)


def _end_excuses(expected: ExpectedSession, judgement: Judgement, read: Read, rules: Rules) -> None:
    """Expect again what raced with a forget that has happened, and is shown behind it: it was not erased."""
    forgets, staleness = expected.forgets, rules.contract.staleness_us
    if forgets is None or not forgets.is_certain or staleness is None or rules.contract.drops_by_itself:
        return
    if read.invoked <= forgets.ended + staleness:
        return
    for number, first, last in (*judgement.fresh, *runs_of(judgement.unsettled)):
        writer = expected.writers[number]
        if writer.excused:
            writer.excused = writer.excused.minus(Intervals([first, last]))


def _digest(expected: ExpectedSession, judgement: Judgement, read: Read) -> None:
    expected.hashed, expected.digest = 0, b""
    items = read.items[: expected.length]
    if judgement.findings or len(items) < expected.length:
        return
    # With permitted repeats among them, the first so many items are not the so many verified messages.
    if judgement.replaces and names_of(items) != list(expected.names_in_order()):
        return
    is_made = judgement.digest and len(items) == len(read.items)
    expected.hashed, expected.digest = expected.length, judgement.digest if is_made else digest_of(items)
