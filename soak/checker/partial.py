"""Judging what only a part of a session was seen of: a glance of the verifier's, a read by a participant.

Both are judged by a whole read that came later. Pure, like every judgement: used while it runs, and by a replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.expected_session import ExpectedSession
from soak.checker.identity import identify, is_well_made
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.lifetime import may_have_expired
from soak.checker.message import Message
from soak.checker.outcome import Outcome
from soak.checker.read import Finding, MessageId, Read, Rules, name_of
from soak.checker.retention import must_be_forgotten
from soak.checker.second_look import Late, breaks_freshness
from soak.checker.text import MessageGenerator
from soak.checker.window import WindowFinding, judge_window
from soak.checker.writer_book import WriterBook

AckedTimes = list[tuple[int, int, int, int]]
"""(writer, seq, sent, ended) of what a participant knew as acknowledged when it read."""


class Seen(NamedTuple):
    """What is wrong with a read of a part."""

    findings: list[Finding]
    """With each element by itself, and with the window as such."""
    late: list[Late]
    """What was acknowledged before the read, and is shown only by a later one."""
    vanished: list[MessageId]
    """What it showed without an outcome, and no later read has shown."""


NOTHING_WRONG = Seen([], [], [])


def judge_glance(book: ExpectedSession, tail: Read, last: int, rules: Rules) -> Seen:
    """Ask whether what a glance showed could have been the end of the session as a whole read has shown it since."""
    if book.forgets is not None or may_have_expired(book, tail.returned, rules):
        return NOTHING_WRONG
    seen = [
        (item.writer, item.seq)
        for item in tail.items
        if type(item) is Message
        and is_well_made(item)
        and item.session == book.session
        and book.find_writer(item.writer) is not None
    ]
    if len(seen) != len(tail.items):
        return NOTHING_WRONG
    repeated = _repeated(book, seen, rules)
    if repeated:
        return Seen(repeated, [], [])
    acked = {(number, seq) for number, seqs in tail.acked.items() for seq in seqs}
    return _judge_window(book, tail.invoked, last, seen, acked, {}, rules)


def judge_seen(
    book: ExpectedSession, read: Read, last: int | None, acked: AckedTimes, rules: Rules, author: MessageGenerator
) -> Seen:
    """Judge what a participant saw by the whole read that the book has taken in since."""
    findings: list[Finding] = []
    seen: list[MessageId] = []
    for index, item in enumerate(read.items):
        place, finding = identify(book, item, author, index)
        if finding is not None:
            findings.append(finding)
        if place is not None:
            seen.append(place)
    if must_be_forgotten(book, read.invoked, rules):
        findings += [
            Finding(Kind.RESURRECTED, name_of(book, place), place, "was acknowledged as forgotten before the read", at)
            for at, place in enumerate(seen)
            if place[1] in book.writers[place[0]].gone
        ]
    findings += _repeated(book, seen, rules)
    if findings:
        return Seen(findings, [], [])
    if book.forgets is not None or may_have_expired(book, read.returned, rules):
        return NOTHING_WRONG
    told = {(number, seq): (sent, ended) for number, seq, sent, ended in acked}
    judged = _judge_window(book, read.invoked, last, seen, set(told), told, rules)
    return judged._replace(vanished=_vanished(book, seen, read, rules))


def seen_in_flight(book: ExpectedSession, read: Read, author: MessageGenerator) -> list[MessageId]:
    """Return what a participant saw before its outcome came: it may yet be refused."""
    found = []
    for item in read.items:
        if isinstance(item, Message) and is_well_made(item) and (item.session, item.run) == (book.session, author.run):
            writer = book.find_writer(item.writer)
            if writer is not None and 0 < item.seq <= writer.leased and writer.is_in_flight(item.seq):
                found.append((item.writer, item.seq))
    return found


def _repeated(book: ExpectedSession, seen: list[MessageId], rules: Rules) -> list[Finding]:
    if rules.contract.duplicates is Duplicates.AT_LEAST_ONCE:
        return []
    return [
        Finding(Kind.DUPLICATED, name_of(book, place), place, "stands twice in one read", seen.index(place))
        for place, count in Counter(seen).items()
        if count > 1
    ]


def _vanished(book: ExpectedSession, seen: list[MessageId], read: Read, rules: Rules) -> list[MessageId]:
    """Return what a participant saw although nobody had acknowledged it, and what the full read since does not show."""
    contract = rules.contract
    if book.forgets is not None or contract.retained_messages is not None or contract.eviction_allowed:
        return []
    if contract.staleness_us is None or may_have_expired(book, book.last_returned, rules):
        return []
    if contract.ttl_seconds is not None and (book.span is None or book.span.reborn >= read.invoked):
        return []  # it may have been of an earlier life
    shown = set(book.unsettled_names())
    return [
        (number, seq)
        for number, seq in dict.fromkeys(seen)
        if not any(seq in seqs for seqs in _decided(book.writers[number])) and (number, seq) not in shown
    ]


def _decided(writer: WriterBook) -> tuple[Intervals, ...]:
    return writer.acked, writer.standing, writer.failed, writer.excused


def _judge_window(
    book: ExpectedSession,
    invoked: int,
    last: int | None,
    seen: list[MessageId],
    acked: set[MessageId],
    told: Mapping[MessageId, tuple[int, int]],
    rules: Rules,
) -> Seen:
    whole = [*book.names_in_order(), *book.unsettled_names()]
    # A participant may know of an acknowledgement before the ledger tells.
    unsure = {one for one in {*whole, *seen} if one not in told and not book.writers[one[0]].bears_order(one[1])}
    attempts = [one for one in (*book.recent, *book.pending) if one.outcome == Outcome.OK]
    known = {(one.writer, one.seq): (one.sent, one.ended) for one in attempts} | dict(told)
    times = {place: ended for place, (_, ended) in known.items()}
    findings: list[Finding] = []
    late: list[Late] = []
    at = {place: index for index, place in enumerate(seen)}
    staleness = rules.contract.staleness_us
    if staleness is None:
        acked = acked & set(at)
    elif staleness:
        # What was acknowledged so lately need not have been in it, wherever it stands now.
        due = invoked - staleness - rules.clock_epsilon_us
        acked = {place for place in acked if times.get(place, 0) <= due or place in at}
    missed = judge_window(last, seen, acked, whole, unsure, rules.contract)
    if not missed and not set(seen) <= set(whole):
        missed = _older_instead(seen, acked & set(whole) - unsure, known, rules.contract)
    for found in missed:
        if found.kind is Kind.STALE:
            lag = max(0, invoked - times.get(found.place, invoked)) / 1e6
            is_broken = breaks_freshness(lag, Kind.STALE, rules)
            late.append(Late(Kind.STALE, found.place, lag, found.detail, is_broken))
        else:
            name = name_of(book, found.place)
            findings.append(Finding(found.kind, name, found.place, found.detail, at.get(found.place, -1)))
    return Seen(findings, late, [])


def _older_instead(
    seen: list[MessageId], acked: set[MessageId], known: Mapping[MessageId, tuple[int, int]], contract: Contract
) -> list[WindowFinding]:
    """Find what a window lacked while something stood in it that is older, where nothing of it is left to compare."""
    if contract.duplicates is Duplicates.AT_LEAST_ONCE or contract.order is Order.NONE:
        return []
    detail = "acknowledged before the read, which showed something older in its place"
    return [
        WindowFinding(Kind.STALE, place, detail)
        for place in sorted(acked - set(seen))
        if place in known
        and any(
            other in known
            and known[other][1] < known[place][0]
            and (contract.order is Order.REALTIME or other[0] == place[0])
            for other in seen
        )
    ]
