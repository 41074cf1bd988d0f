"""What may rightly be gone, and what must be: forgets, times to live, windows, eviction."""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.attempt import Attempt
from soak.checker.contract import Expiry
from soak.checker.expected_session import ExpectedSession
from soak.checker.intervals import Intervals
from soak.checker.lifetime import earliest_end, has_run_out, may_have_begun_untold, may_have_expired
from soak.checker.outcome import Outcome
from soak.checker.read import MessageId, Read, Rules
from soak.checker.span import Span

OUTCOME_US_MAX = 10_000_000
"""How long after the last append the outcome of an earlier one may still come."""


def must_be_forgotten(book: ExpectedSession, at: int, rules: Rules) -> bool:
    """Whether a read at this time may no longer show what was forgotten; a stale one may, for as long as promised."""
    forgets, staleness = book.forgets, rules.contract.staleness_us
    if forgets is None or not forgets.is_certain or staleness is None:
        return False
    return at > forgets.ended + staleness + rules.clock_epsilon_us


class Absences(NamedTuple):
    """What a read lacks although it was acknowledged or seen."""

    absent: dict[int, Intervals]
    """Suspicious."""
    excused: dict[int, Intervals]
    """Rightly gone."""
    is_undecided: bool = False
    """An outcome that is on its way decides whether it is rightly gone."""


def absences(book: ExpectedSession, read: Read, names: list[MessageId], rules: Rules, taken: int) -> Absences:
    """Tell what is absent, and whether rightly so; `taken` is how many items take up a place of the last so many."""
    present: dict[int, Intervals] = {}
    for writer, seq in names:
        present.setdefault(writer, Intervals()).add(seq)
    gone = _missing(book, read, present)
    if not gone:
        return Absences({}, {})
    if (book.forgets is not None and book.forgets.is_awaited(read.returned)) or _is_life_untold(book, read, rules):
        return Absences({}, {}, is_undecided=True)
    if book.forget_in_doubt or rules.contract.eviction_allowed or may_have_expired(book, read.returned, rules):
        return Absences(*_part_expired(book, gone, read, rules))
    if rules.contract.retained_messages is None:
        return Absences(gone, {})
    # Whatever stands there takes up a place, a permitted repeat as well as a message.
    if taken < rules.contract.retained_messages:
        return Absences(*_part_superseded(book, gone, present, rules.contract.retained_messages))
    return Absences(*_part_trimmed(book, gone, names))


def _part_expired(
    book: ExpectedSession, gone: dict[int, Intervals], read: Read, rules: Rules
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Part what may be gone from what a sliding life keeps: until its own send + TTL a message is there."""
    contract = rules.contract
    is_only_by_age = not (book.forget_in_doubt or contract.eviction_allowed or contract.retained_messages)
    if contract.expiry is not Expiry.SLIDING or not is_only_by_age:
        return {}, gone
    young: dict[int, Intervals] = {}
    for one in (*book.recent, *book.pending):
        life = Span(one.sent, one.ended, one.sent, one.ended)
        if one.seq in gone.get(one.writer, ()) and read.returned < earliest_end(life, rules):
            young.setdefault(one.writer, Intervals()).add(one.seq)
    return young, {number: seqs.minus(young.get(number) or Intervals()) for number, seqs in gone.items()}


def _is_life_untold(book: ExpectedSession, read: Read, rules: Rules) -> bool:
    """Whether nobody knows yet when the life of a session began that may be over: an outcome may be on its way.

    Where no append was ever recorded (its worker died), what was seen may have been sent at any time.
    """
    if rules.contract.ttl_seconds is None or has_run_out(book, read.returned, rules):
        return False
    if book.span is None:
        return True
    return may_have_begun_untold(book, rules) and read.returned < book.span.last_ended + OUTCOME_US_MAX


def _missing(book: ExpectedSession, read: Read, present: dict[int, Intervals]) -> dict[int, Intervals]:
    """Return what this read had to show and does not: acknowledged before it, or shown by the read before."""
    gone: dict[int, Intervals] = {}
    for number, acked in read.acked.items():
        writer = book.writers[number]
        # What was seen in flight counted as acknowledged; it may have been refused since the read was invoked.
        missing = acked.minus(present.get(number) or Intervals()).minus(writer.excused).minus(writer.failed)
        if missing:
            gone[number] = missing
    for number, seq in (*book.unsettled_names(), *book.veiled_names()):
        writer = book.writers[number]
        if seq not in present.get(number, ()) and seq not in writer.failed and seq not in writer.excused:
            gone.setdefault(number, Intervals()).add(seq)
    return gone


def _part_superseded(
    book: ExpectedSession, gone: dict[int, Intervals], present: dict[int, Intervals], retained: int
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Part what is missing where too few stand: so many may be newer that a message had to go, or it had to stay."""
    at = {place: index for index, place in enumerate(book.names_in_order())}
    times = {(one.writer, one.seq): one for one in (*book.recent, *book.pending)}
    absent: dict[int, Intervals] = {}
    superseded: dict[int, Intervals] = {}
    for number, seqs in gone.items():
        for seq in seqs:
            newer = _count_newer(book, (number, seq), present, at, times)
            (superseded if newer >= retained else absent).setdefault(number, Intervals()).add(seq)
    return absent, superseded


def _count_newer(
    book: ExpectedSession,
    place: MessageId,
    present: dict[int, Intervals],
    at: dict[MessageId, int],
    times: dict[MessageId, Attempt],
) -> int:
    """Count the messages that may have been applied after this one: acknowledged, or shown."""
    mine, count = times.get(place), 0
    for number, writer in enumerate(book.writers):
        applied = writer.acked.copy()
        applied.update(writer.unknown)  # which may have been applied, and lost in a crash
        applied = applied.minus(writer.excused)  # what had to go before is older
        applied.update((present.get(number) or Intervals()).minus(writer.failed).minus(writer.gone))
        if number == place[0]:
            count += sum(1 for seq in applied if seq > place[1])
        else:
            others = ((number, seq) for seq in applied)
            count += sum(not _is_before(other, place, mine, at, times) for other in others)
    return count


def _is_before(
    other: MessageId, place: MessageId, mine: Attempt | None, at: dict[MessageId, int], times: dict[MessageId, Attempt]
) -> bool:
    """Whether another message was certainly applied before this one."""
    if other in at and place in at:
        return at[other] < at[place]
    theirs = times.get(other)
    return mine is not None and theirs is not None and theirs.outcome == Outcome.OK and theirs.ended < mine.sent


def _part_trimmed(
    book: ExpectedSession, gone: dict[int, Intervals], names: list[MessageId]
) -> tuple[dict[int, Intervals], dict[int, Intervals]]:
    """Part what is missing from the last so many: trimmed if nothing that stands is older, suspicious otherwise.

    The window is one over the whole session. A late unknown write may stand anywhere in it and proves nothing.
    """
    window = [place for place in names if book.writers[place[0]].bears_order(place[1])]
    at = {place: index for index, place in enumerate(book.names_in_order())}
    times = {(one.writer, one.seq): one for one in (*book.recent, *book.pending)}
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
            sent = times[number, seq].sent if (number, seq) in times else None
            has_older = number in first_seq and first_seq[number] < seq
            has_older |= first_at is not None and at.get((number, seq), -1) > first_at
            has_older |= sent is not None and first_back is not None and first_back < sent
            if sent is not None and (number, seq) not in at:
                # What an earlier read had shown is older than all that was sent since.
                has_older |= first_at is not None and sent > book.last_returned
                has_older |= first_ended is not None and first_ended < sent
            (absent if has_older else trimmed).setdefault(number, Intervals()).add(seq)
    return absent, trimmed
