"""What may rightly be gone, and what must be: times to live, forgets, windows, eviction.

A session lives from the first attempt that may have been applied; each append prolongs a sliding life. Between the
earliest and the latest end nothing is claimed. What a forget has erased must not be seen again, and what it may have
erased is not missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from soak.checker.contract import Duplicates, Expiry, Order
from soak.checker.expected_session import NEVER, NOTHING, ExpectedSession, Forgets, Lifespan, united
from soak.checker.intervals import Intervals
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import MessageId, Read, Rules

# -- what appends say --


def prolong(expected: ExpectedSession, attempt: Attempt, rules: Rules) -> None:
    """Excuse what may have expired before this append began a new life of the session."""
    if expected.forgets is not None and expected.forgets.has_erased(attempt.ended):
        return  # its outcome came late, and it belongs to a life that is over
    if has_run_out(expected, attempt.ended, rules):
        past = _end_life(expected, attempt, rules)
        # From here on it may be a new life, whose end is counted from this append.
        expected.span = _restarted(expected, attempt, rules, past)
        return
    if expected.span is not None and attempt.sent - rules.clock_epsilon_us <= expected.span.reborn:
        # It was under way when the new life began, and may have been the last thing said in the old one.
        expected.writer(attempt.writer).excuse(Intervals([attempt.seq, attempt.seq]))
        if attempt.ended < expected.span.reborn:
            # Its outcome came late, and it belongs to the old one, or to one that it had begun and that goes on.
            own = Lifespan(attempt.sent, attempt.ended, attempt.sent, attempt.ended)
            if _latest_end(own, rules) >= expected.span.first_sent:
                expected.span = expected.span._replace(first_sent=min(expected.span.first_sent, attempt.sent))
            return
    extend(expected, attempt)


def _end_life(expected: ExpectedSession, attempt: Attempt, rules: Rules) -> set[MessageId]:
    """Excuse all that was said before an append that may have begun a new life of the session.

    Returns what was seen without an acknowledgement, and was certainly applied in the old one, or one before.
    """
    mine, until = (attempt.writer, attempt.seq), 0 if expected.span is None else earliest_end(expected.span, rules)
    is_applied_once = rules.contract.duplicates is Duplicates.EXACTLY_ONCE
    past: set[MessageId] = set()
    for number, writer in enumerate(expected.writers):
        if is_applied_once and writer.unknown:
            past |= {(number, seq) for seq in writer.unknown.both(writer.acked).both(writer.excused)}
        writer.excuse(writer.acked)
    others = [one for one in expected.unsettled or () if (one.writer, one.seq) != mine]
    for number, seq in (*((one.writer, one.seq) for one in others), *expected.veiled_names()):
        if (number, seq) != mine:
            expected.writers[number].excuse(Intervals([seq, seq]))
    if is_applied_once:
        # What a read had shown before that was applied in the old life, whatever its outcome will be.
        for one in others:
            writer, seqs = expected.writers[one.writer], Intervals([one.seq, one.seq])
            if one.since < until and one.seq not in writer.acked and one.seq not in writer.failed:
                writer.unknown = united(writer.unknown, seqs)
                writer.acked.update(seqs)
                past.add((one.writer, one.seq))
    # Seen is seen, if it is refused.
    expected.glimpsed = [*(expected.glimpsed or ()), *((one.writer, one.seq, one.since) for one in others)] or None
    expected.veiled = None
    expected.glanced = expected.unsettled_names() if is_applied_once else None
    expected.unsettled = [one for one in expected.unsettled or () if (one.writer, one.seq) == mine] or None
    expected.is_blind = True
    expected.drop_excused()
    return past


def extend(expected: ExpectedSession, attempt: Attempt) -> None:
    """Note when the session was last appended to, where its life depends on it."""
    may_be_erased = expected.forgets is not None and attempt.sent <= expected.forgets.ended
    begun = NEVER if may_be_erased else attempt.ended
    span = expected.span or Lifespan(attempt.sent, begun, attempt.sent, attempt.ended)
    # Of several appends under way at once any may have been applied first, but none after the first answer. One that
    # raced with a forget may have been erased by it, and begun nothing.
    expected.span = Lifespan(
        min(span.first_sent, attempt.sent),
        span.first_ended if may_be_erased else min(span.first_ended, attempt.ended),
        max(span.last_sent, attempt.sent),
        max(span.last_ended, attempt.ended),
        *span[4:],
    )


def _restarted(expected: ExpectedSession, attempt: Attempt, rules: Rules, past: set[MessageId]) -> Lifespan:
    """Begin a new life with this append; if the old one may go on, it may also end when that would have.

    An unknown append may have begun one at any time since it was sent.
    """
    unseen = {(n, seq) for n, writer in enumerate(expected.writers) for seq in writer.unknown.minus(writer.acked)}
    doubtful = (one for one in expected.recent if one.outcome == Outcome.UNKNOWN or (one.writer, one.seq) in unseen)
    unknown = [one for one in doubtful if (one.writer, one.seq) not in past]
    first_sent = min([attempt.sent, *(one.sent for one in unknown)])
    # Its outcome may have come late: a read since may have shown that the life went on.
    last_ended = max(attempt.ended, 0 if expected.span is None else expected.span.last_ended)
    begun = Lifespan(first_sent, attempt.ended, attempt.sent, last_ended, reborn=attempt.ended)
    dated = unseen <= {(one.writer, one.seq) for one in unknown}
    if expected.span is None or (dated and must_have_expired(expected, attempt.sent, rules)):
        return begun
    until = expected.span.old_until or _latest_end(expected.span, rules)
    next_sent = min(first_sent, expected.span.next_sent or first_sent)
    if dated and attempt.sent > until:
        # The old one is over. One that has begun since may go on.
        return begun._replace(first_sent=next_sent)
    return begun._replace(first_sent=expected.span.first_sent, old_until=until, next_sent=next_sent)


def begin_no_later(expected: ExpectedSession, attempt: Attempt) -> None:
    """Note that the life of the session may have begun with an append whose outcome is unknown."""
    mine = (attempt.writer, attempt.seq)
    # If a read has shown it, then it had begun by then.
    begun = next((one.since for one in expected.unsettled or () if (one.writer, one.seq) == mine), NEVER)
    if expected.span is not None:
        span = expected.span
        expected.span = span._replace(
            first_sent=min(span.first_sent, attempt.sent), first_ended=min(span.first_ended, begun)
        )
    else:
        # It may not have happened at all, or not yet: it promises nothing about until when the session lives.
        expected.span = Lifespan(attempt.sent, begun, 0, attempt.ended)


# -- when it is over --


def expiry_overdue(expected: ExpectedSession, read: Read, rules: Rules) -> int:
    """Return by how many microseconds the session should have expired before the read, or 0."""
    ttl = rules.contract.ttl_seconds
    # An unknown append may have prolonged the life of the session, and so may one that is still under way.
    if ttl is None or expected.span is None or not expected.closed or _may_be_prolonged(expected, rules):
        return 0
    if rules.contract.staleness_us is None:
        return 0  # a read may show what was, for ever
    latest, forgets = _latest_end(expected.span, rules), expected.forgets
    until = expected.span.last_ended + rules.clock_epsilon_us
    if forgets is not None and forgets.is_in_doubt and forgets.in_doubt_since <= until:
        # It may have ended this life, and any append since may have begun another.
        latest = _latest_end(expected.span._replace(first_ended=NEVER), rules)
    return max(0, read.invoked - latest - rules.contract.staleness_us)


def _may_be_prolonged(expected: ExpectedSession, rules: Rules) -> bool:
    """Whether an unknown append may yet prolong a life, or begin one: until a read has shown it, at any time."""
    if rules.contract.expiry is Expiry.ABSOLUTE:
        return any(writer.unknown for writer in expected.writers)
    return any(writer.unknown and writer.unknown.minus(writer.acked) for writer in expected.writers)


def must_have_expired(expected: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether a session to which nothing was appended since must be gone at this time."""
    return (
        rules.contract.ttl_seconds is not None and expected.span is not None and at > _latest_end(expected.span, rules)
    )


def expiry_of(expected: ExpectedSession, rules: Rules) -> tuple[int, int] | None:
    """Return until when a session must be there, and after when it must be gone; None if it does not expire."""
    if rules.contract.ttl_seconds is None or expected.span is None:
        return None
    return earliest_end(expected.span, rules), _latest_end(expected.span, rules) + (rules.contract.staleness_us or 0)


def earliest_end(span: Lifespan, rules: Rules) -> int:
    base = span.last_sent if rules.contract.expiry is Expiry.SLIDING else span.first_sent
    return base + int((rules.contract.ttl_seconds or 0.0) * 1e6) - rules.ttl_epsilon_us - rules.clock_epsilon_us


def _latest_end(span: Lifespan, rules: Rules) -> int:
    is_begin_known = rules.contract.expiry is Expiry.ABSOLUTE and span.first_ended != NEVER
    base = span.first_ended if is_begin_known else span.last_ended
    return base + int((rules.contract.ttl_seconds or 0.0) * 1e6) + rules.ttl_epsilon_us + rules.clock_epsilon_us


def may_have_expired(expected: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether the contract's time to live allows that the session is gone at this time."""
    if expected.span is None:
        return False
    return has_run_out(expected, at, rules) or may_have_begun_unreported(expected, rules)


def has_run_out(expected: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether the life of the session, as far as it is known when it began, may be over at this time."""
    return (
        rules.contract.ttl_seconds is not None
        and expected.span is not None
        and at >= earliest_end(expected.span, rules)
    )


def may_have_begun_unreported(expected: ExpectedSession, rules: Rules) -> bool:
    is_absolute = rules.contract.ttl_seconds is not None and rules.contract.expiry is Expiry.ABSOLUTE
    return is_absolute and expected.span is not None and _is_begin_unreported(expected)


def _is_begin_unreported(expected: ExpectedSession) -> bool:
    """Whether an append of which no outcome ever came may have begun the life of the session."""
    is_one_life = expected.forgets is None and (expected.span is None or not expected.span.reborn)
    known = {(one.writer, one.seq) for one in (*expected.recent, *expected.pending)}
    if not is_one_life and any(place not in known for place in (*expected.unsettled_names(), *expected.veiled_names())):
        return True  # nobody knows when that was sent
    for writer in expected.writers:
        applied = writer.acked.copy()
        applied.update(writer.unknown)
        until = applied.bounds[0] - 1 if applied and is_one_life else applied.largest
        if until and Intervals([1, until]).minus(applied).minus(writer.failed):
            return True
    return False


def end_forget(
    expected: ExpectedSession,
    outcome: Outcome,
    sent: int,
    ended: int,
    *,
    behind_us: int | None = 0,
    clock_epsilon_us: int = 0,
    ends_excuses: bool = True,
    is_applied_once: bool = True,
) -> None:
    """Take in how a forget ended.

    A full read that was invoked more than `behind_us` after it shows what it has left; None: no read does for certain.
    What raced with it and was left is expected again, where that `ends_excuses`. Unless `is_applied_once`, an append
    without an outcome may be applied again after a read has shown it. Other hosts' clocks may be apart by epsilon.
    """
    forgets = expected.forgets or Forgets()
    intent = max((other for other in forgets.open if other <= sent), default=None)
    forgets.open = [other for other in forgets.open if other != intent]
    sent, ended = sent - clock_epsilon_us, ended + clock_epsilon_us
    is_news = outcome is Outcome.OK and forgets.happened(sent, ended)
    forgets.may_happen = forgets.may_happen or (sent if outcome is Outcome.UNKNOWN else 0)
    expected.forgets = forgets if forgets.ended or forgets.is_in_doubt else None
    if outcome is Outcome.UNKNOWN:
        for writer in expected.writers:
            writer.excuse(writer.acked)
        expected.veiled = None
    elif is_news:
        _erase(expected, forgets, is_applied_once=is_applied_once)
        shows_since = NEVER if behind_us is None else forgets.ended + behind_us
        _keep_what_is_left(expected, shows_since, ends_excuses=ends_excuses)
    expected.drop_excused()


def _erase(expected: ExpectedSession, forgets: Forgets, *, is_applied_once: bool) -> None:
    """Expect no longer what a forget has erased, or may have."""
    if is_applied_once:
        # What a read had shown by then was applied, whatever its outcome.
        for writer in expected.writers if expected.last_returned < forgets.sent else ():
            writer.gone = united(writer.gone, writer.standing)
        shown = [(one.writer, one.seq) for one in expected.unsettled or () if one.since < forgets.sent]
        # And what the read before the last one had shown, which had returned when that was invoked.
        for number, seq in (*shown, *(expected.veiled_names() if expected.last_read < forgets.sent else ())):
            expected.writers[number].gone = united(expected.writers[number].gone, Intervals([seq, seq]))
    known = (*expected.recent, *expected.pending)
    behind = [one for one in known if one.sent > forgets.ended]
    if expected.span is not None:
        expected.span = _span_behind(expected, expected.span, known, behind)
    for number, writer in enumerate(expected.writers):
        racing = Intervals.of(sorted(one.seq for one in known if one.writer == number and one.ended >= forgets.sent))
        later = Intervals.of(sorted(one.seq for one in behind if one.writer == number))
        writer.gone = united(writer.gone, writer.acked.minus(racing).minus(writer.unknown))
        writer.excuse(writer.acked.minus(later))


def _span_behind(
    expected: ExpectedSession, span: Lifespan, known: Iterable[Attempt], behind: Iterable[Attempt]
) -> Lifespan:
    """Return the life that begins behind a forget: with the next append, or with one that may have come after it."""
    forgets = expected.forgets
    unseen = {
        (n, seq) for n, one in enumerate(expected.writers) for seq in one.unknown.minus(one.acked).minus(one.gone)
    }
    may_begin = [
        one
        for one in known
        if forgets is None
        or (one.ended >= forgets.sent and one.seq not in expected.writers[one.writer].gone)
        or (one.writer, one.seq) in unseen
    ]
    span = span._replace(first_ended=min((one.ended for one in behind), default=NEVER), old_until=0, next_sent=0)
    if unseen - {(one.writer, one.seq) for one in may_begin}:
        return span  # one of them may be older than any time that is known
    return span._replace(first_sent=min((one.sent for one in may_begin), default=NEVER))


def _keep_what_is_left(expected: ExpectedSession, shows_since: int, *, ends_excuses: bool) -> None:
    """Keep of what reads have shown only what a forget was seen to have left."""
    standing = list(expected.names_in_order())
    is_behind = shows_since < expected.last_whole
    shown = [
        *standing,
        *expected.unsettled_names(),
        *((number, seq) for number, seq, at in expected.veiled or () if shows_since < at),
    ]
    if is_behind and expected.forgets is not None and expected.forgets.is_certain:
        expected.revived = [(number, seq) for number, seq in shown if seq in expected.writers[number].gone] or None
    left = [place for place in standing if is_behind and place[1] not in expected.writers[place[0]].gone]
    expected.veiled = [
        (number, seq, at)
        for number, seq, at in expected.veiled or ()
        if shows_since < at and seq not in expected.writers[number].gone
    ] or None
    unsettled = [one for one in expected.unsettled_names() if is_behind and one[1] not in expected.writers[one[0]].gone]
    for number, seq in (*left, *expected.veiled_names(), *unsettled) if ends_excuses else ():
        writer = expected.writers[number]
        writer.excused = writer.excused.minus(Intervals([seq, seq]))
    if not is_behind:
        in_flight = [one for one in expected.unsettled or () if expected.writers[one.writer].is_in_flight(one.seq)]
        # Seen is seen, if it is refused.
        expected.glimpsed = [
            *(expected.glimpsed or ()),
            *((one.writer, one.seq, one.since) for one in in_flight),
        ] or None
        for number, seq in expected.unsettled_names():
            expected.writers[number].excuse(Intervals([seq, seq]))
        expected.unsettled = None
    expected.unsettled = [
        one for one in expected.unsettled or () if one.seq not in expected.writers[one.writer].gone
    ] or None
    expected.is_blind = not is_behind
    expected.glanced = expected.overlooked = None
    expected.replace_verified(left)


class Undone(NamedTuple):
    """When what was done may have been undone by a fault: a forget, or that a life began or was prolonged."""

    since: int
    until: int
    started: int
    """When the fault did: what a read showed before that is as it was."""


def undo(expected: ExpectedSession, undone: Undone, by_any: Callable[[], Sequence[Undone]]) -> None:
    """Claim no longer what a fault may have undone; what none of them may have undone prolonged a life all the same."""
    since, until, started = undone
    forgets, span = expected.forgets, expected.span
    is_in_tail = forgets is not None and forgets.is_certain and since <= forgets.ended <= until
    if forgets is not None and is_in_tail and not _was_answered_behind(expected, since):
        forgets.is_undone = True
        if started <= expected.last_returned:
            expected.revived = None
        for writer in expected.writers:
            writer.gone = NOTHING
    if span is not None and span.old_until:
        span = expected.span = span._replace(old_until=NEVER)
    if span is not None and since <= span.first_ended <= until:
        span = expected.span = span._replace(first_ended=NEVER)
    if span is not None and since <= span.last_ended and span.last_sent <= until:
        begun = span.first_sent if span.first_sent < NEVER else 0
        kept = _kept_sent(expected, span, (undone, *by_any()))
        expected.span = span._replace(last_sent=max([begun, *kept]))


def _was_answered_behind(expected: ExpectedSession, before: int) -> bool:
    """Whether something that stands behind a forget was answered by then: so the forget had happened by then, too."""
    return any(
        one.outcome == Outcome.OK
        and one.ended < before
        and one.seq in expected.writers[one.writer].standing
        and one.seq not in expected.writers[one.writer].excused
        and one.seq not in expected.writers[one.writer].gone
        for one in expected.recent
    )


def _kept_sent(expected: ExpectedSession, span: Lifespan, by_any: Sequence[Undone]) -> list[int]:
    """Return when those of the appends of a life were sent that no fault may have undone, as far as is remembered."""
    forgets = expected.forgets
    return [
        one.sent
        for one in (*expected.recent, *expected.pending)
        if one.outcome == Outcome.OK
        and span.first_sent <= one.sent <= span.last_sent
        and not (forgets is not None and forgets.may_erase(one.sent))
        and not any(each.since <= one.ended and one.sent <= each.until for each in by_any)
    ]


OUTCOME_US_MAX = 10_000_000
"""How long after the last append the outcome of an earlier one may still come."""


def must_be_forgotten(expected: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether a read at this time may no longer show what was forgotten; a stale one may, for as long as promised."""
    forgets, staleness = expected.forgets, rules.contract.staleness_us
    if forgets is None or not forgets.is_certain or staleness is None:
        return False
    return at > forgets.ended + staleness


class Absences(NamedTuple):
    """What a read lacks although it was acknowledged or seen."""

    absent: dict[int, Intervals]
    """Suspicious."""
    excused: dict[int, Intervals]
    """Rightly gone."""
    is_undecided: bool = False
    """An outcome that is on its way decides whether it is rightly gone."""


def absences(expected: ExpectedSession, read: Read, names: list[MessageId], rules: Rules, taken: int) -> Absences:
    """Tell what is absent, and whether rightly so; `taken` is how many items take up a place of the last so many."""
    present: dict[int, Intervals] = {}
    for writer, seq in names:
        present.setdefault(writer, Intervals()).add(seq)
    gone = _missing(expected, read, present)
    if not gone:
        return Absences({}, {})
    if (expected.forgets is not None and expected.forgets.is_awaited(read.returned)) or _is_life_unreported(
        expected, read, rules
    ):
        return Absences({}, {}, is_undecided=True)
    if expected.forget_in_doubt or rules.contract.eviction_allowed or may_have_expired(expected, read.returned, rules):
        return Absences(*_part_expired(expected, gone, read, rules))
    if rules.contract.retained_messages is None:
        return Absences(gone, {})
    # Whatever stands there takes up a place, a permitted repeat as well as a message.
    if taken < rules.contract.retained_messages:
        return Absences(*_part_superseded(expected, gone, present, rules))
    return Absences(*_part_trimmed(expected, gone, names, rules.clock_epsilon_us))


def _part_expired(
    expected: ExpectedSession, gone: dict[int, Intervals], read: Read, rules: Rules
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Part what may be gone from what a sliding life keeps: until its own send + TTL a message is there."""
    contract = rules.contract
    is_only_by_age = not (expected.forget_in_doubt or contract.eviction_allowed or contract.retained_messages)
    if contract.expiry is not Expiry.SLIDING or not is_only_by_age:
        return {}, gone
    young: dict[int, Intervals] = {}
    for one in (*expected.recent, *expected.pending):
        life = Lifespan(one.sent, one.ended, one.sent, one.ended)
        if one.seq in gone.get(one.writer, ()) and read.returned < earliest_end(life, rules):
            young.setdefault(one.writer, Intervals()).add(one.seq)
    return young, {number: seqs.minus(young.get(number) or Intervals()) for number, seqs in gone.items()}


def _is_life_unreported(expected: ExpectedSession, read: Read, rules: Rules) -> bool:
    """Whether nobody knows yet when the life of a session began that may be over: an outcome may be on its way.

    Where no append was ever recorded (its worker died), what was seen may have been sent at any time.
    """
    if rules.contract.ttl_seconds is None or has_run_out(expected, read.returned, rules):
        return False
    if expected.span is None:
        return True
    return may_have_begun_unreported(expected, rules) and read.returned < expected.span.last_ended + OUTCOME_US_MAX


def _missing(expected: ExpectedSession, read: Read, present: dict[int, Intervals]) -> dict[int, Intervals]:
    """Return what this read had to show and does not: acknowledged before it, or shown by the read before."""
    gone: dict[int, Intervals] = {}
    for number, writer in enumerate(expected.writers):
        due = read.acked.get(number, NOTHING)
        if writer.unknown and expected.last_returned <= read.invoked:
            # An unknown write that the last read showed, also if that was judged only after this one was invoked.
            due = united(due.copy(), writer.unknown.both(writer.standing))
        # What was seen in flight counted as acknowledged; it may have been refused since the read was invoked.
        missing = due.minus(present.get(number) or Intervals()).minus(writer.excused).minus(writer.failed)
        if missing:
            gone[number] = missing
    # What is suspected stays so, also if the read that began to suspect it was judged after this one was invoked.
    overlooked = [(one.writer, one.seq) for one in expected.overlooked or ()]
    suspected = (*expected.suspected_names(), *overlooked)
    for number, seq in (*expected.unsettled_names(), *expected.veiled_names(), *suspected):
        writer = expected.writers[number]
        if seq not in present.get(number, ()) and seq not in writer.failed and seq not in writer.excused:
            gone.setdefault(number, Intervals()).add(seq)
    return gone


def _part_superseded(
    expected: ExpectedSession, gone: dict[int, Intervals], present: dict[int, Intervals], rules: Rules
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Part what is missing where too few stand: so many may be newer that a message had to go, or it had to stay."""
    is_ordered = rules.contract.order is not Order.NONE
    shown = (*expected.names_in_order(), *expected.unsettled_names()) if is_ordered else ()
    at = {place: index for index, place in enumerate(shown)}
    times = {(one.writer, one.seq): one for one in (*expected.recent, *expected.pending)}
    retained = rules.contract.retained_messages or 0
    absent: dict[int, Intervals] = {}
    superseded: dict[int, Intervals] = {}
    for number, seqs in gone.items():
        for seq in seqs:
            newer = _count_newer(expected, (number, seq), present, at, times, rules.clock_epsilon_us)
            (superseded if newer >= retained else absent).setdefault(number, Intervals()).add(seq)
    return absent, superseded


def _count_newer(
    expected: ExpectedSession,
    place: MessageId,
    present: dict[int, Intervals],
    at: dict[MessageId, int],
    times: dict[MessageId, Attempt],
    epsilon_us: int,
) -> int:
    """Count the messages that may have been applied after this one: acknowledged, or shown."""
    mine, count = times.get(place), 0
    for number, writer in enumerate(expected.writers):
        applied = writer.acked.copy()
        applied.update(writer.unknown)  # which may have been applied, and lost in a crash
        applied = applied.minus(writer.excused)  # what had to go before is older
        applied.update((present.get(number) or Intervals()).minus(writer.failed).minus(writer.gone))
        if number == place[0]:
            count += sum(1 for seq in applied if seq > place[1])
        else:
            others = ((number, seq) for seq in applied)
            count += sum(not _is_before(other, place, mine, at, times, epsilon_us) for other in others)
    return count


def _is_before(
    other: MessageId,
    place: MessageId,
    mine: Attempt | None,
    at: dict[MessageId, int],
    times: dict[MessageId, Attempt],
    epsilon_us: int,
) -> bool:
    """Whether another message was certainly applied before this one."""
    if other in at and place in at:
        return at[other] < at[place]
    theirs = times.get(other)
    if mine is None or theirs is None or theirs.outcome != Outcome.OK:
        return False
    return theirs.ended + epsilon_us < mine.sent


def _part_trimmed(
    expected: ExpectedSession, gone: dict[int, Intervals], names: list[MessageId], epsilon_us: int
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Part what is missing from the last so many: trimmed if nothing that stands is older, suspicious otherwise.

    The window is one over the whole session. A late unknown write may stand anywhere in it and proves nothing.
    """
    window = [place for place in names if expected.writers[place[0]].bears_order(place[1])]
    at = {place: index for index, place in enumerate(expected.names_in_order())}
    times = {(one.writer, one.seq): one for one in (*expected.recent, *expected.pending)}
    first_seq: dict[int, int] = {}
    for number, seq in window:
        first_seq[number] = min(seq, first_seq.get(number, seq))
    first_at = min((at[place] for place in window if place in at), default=None)
    first_ended = min((times[place].ended for place in window if place in times), default=None)
    first_back = min((times[place].ended for place in window if place in times and place not in at), default=None)
    absent: dict[int, Intervals] = {}
    trimmed: dict[int, Intervals] = {}
    for number, seqs in gone.items():
        for seq in seqs:
            # At the earliest, by the clock of whatever it is compared with.
            sent = times[number, seq].sent - epsilon_us if (number, seq) in times else None
            has_older = number in first_seq and first_seq[number] < seq
            has_older |= first_at is not None and at.get((number, seq), -1) > first_at
            has_older |= sent is not None and first_back is not None and first_back < sent
            if sent is not None and (number, seq) not in at:
                # What an earlier read had shown is older than all that was sent since.
                has_older |= first_at is not None and sent > expected.last_returned
                has_older |= first_ended is not None and first_ended < sent
            (absent if has_older else trimmed).setdefault(number, Intervals()).add(seq)
    return absent, trimmed
