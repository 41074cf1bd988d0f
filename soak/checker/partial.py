"""Judging what only a part of a session was seen of: the last messages, or the answer to a search.

A read of the last messages, by the verifier or by a participant, is judged by a whole read that came later.

Judging a search, in a memory that is searched: what stands in its answer, and what is missing from it.

What stands in an answer is judged by itself: it has to be of the session, as it was written, and not forgotten.

Absence is judged for one message only: the one whose own words were asked for. Equal texts have equal
vectors, so nothing lies nearer to a text than the message that says it; but others may say the same, and an index may
be approximate. So a first answer that lacks it proves nothing, and a wide one is asked for, with room for the whole
session. Where that lacks it too it is suspected, and looked for again later: a wide search, and after it a whole read
that still shows the message. Only then it is `unfindable`. If a later search shows it, the first one was `stale`.
Where the contract says that the index is approximate, a miss is counted, and that is all.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from soak.checker.contract import Duplicates, Order, Searches
from soak.checker.expected_session import NOTHING, ExpectedSession, WriterBook, name_of
from soak.checker.faults import FaultWindow, allowed_loss_seconds
from soak.checker.incidents import Missed
from soak.checker.intervals import Intervals
from soak.checker.judge import FINDINGS_MAX, find_duplicates, find_resurrected, identify
from soak.checker.kinds import Kind
from soak.checker.message import Message, is_well_made
from soak.checker.order import WindowFinding, judge_window
from soak.checker.outcome import Outcome
from soak.checker.read import Finding, MessageId, Read, Rules
from soak.checker.retention import may_have_expired, must_be_forgotten
from soak.checker.second_look import Late, breaks_freshness
from soak.checker.text import MessageGenerator

AckedTimes = list[tuple[int, int, int, int]]
"""(writer, seq, sent, ended) of what a participant knew as acknowledged when it read."""


class PartialJudgement(NamedTuple):
    """What is wrong with a read of a part."""

    findings: list[Finding]
    """With each element by itself, and with the window as such."""
    late: list[Late]
    """What was acknowledged before the read, and is shown only by a later one."""
    places: list[MessageId]
    """What it showed of the session, if nothing is wrong with it."""


NOTHING_WRONG = PartialJudgement([], [], [])


def judge_glance(expected: ExpectedSession, tail: Read, last: int, rules: Rules) -> PartialJudgement:
    """Ask whether what a glance showed could have been the end of the session as a whole read has shown it since."""
    if expected.forgets is not None or may_have_expired(expected, tail.returned, rules):
        return NOTHING_WRONG
    seen = [
        (item.writer, item.seq)
        for item in tail.items
        if type(item) is Message
        and is_well_made(item)
        and item.session == expected.session
        and expected.find_writer(item.writer) is not None
    ]
    if len(seen) != len(tail.items):
        return NOTHING_WRONG
    repeated = _repeated(expected, seen, rules)
    if repeated:
        return PartialJudgement(repeated, [], [])
    acked = {(number, seq) for number, seqs in tail.acked.items() for seq in seqs}
    return _judge_window(expected, tail.invoked, last, seen, acked, {}, rules)


def judge_seen(
    expected: ExpectedSession, read: Read, last: int | None, acked: AckedTimes, rules: Rules, author: MessageGenerator
) -> PartialJudgement:
    """Judge what a participant saw by the whole read that the book has taken in since."""
    findings: list[Finding] = []
    seen: list[MessageId] = []
    for index, item in enumerate(read.items):
        place, finding = identify(expected, item, author, index)
        if finding is not None:
            findings.append(finding)
        if place is not None:
            seen.append(place)
    if must_be_forgotten(expected, read.invoked, rules):
        findings += [
            Finding(
                Kind.RESURRECTED, name_of(expected, place), place, "was acknowledged as forgotten before the read", at
            )
            for at, place in enumerate(seen)
            if place[1] in expected.writers[place[0]].gone
        ]
    findings += _repeated(expected, seen, rules)
    if findings:
        return PartialJudgement(findings, [], [])
    if expected.forgets is not None or may_have_expired(expected, read.returned, rules):
        return NOTHING_WRONG
    acked_times = {(number, seq): (sent, ended) for number, seq, sent, ended in acked}
    judged = _judge_window(expected, read.invoked, last, seen, set(acked_times), acked_times, rules)
    return judged._replace(places=seen)


def seen_in_flight(expected: ExpectedSession, read: Read, author: MessageGenerator) -> list[MessageId]:
    """Return what a participant saw before its outcome came: it may yet be refused."""
    found = []
    for item in read.items:
        if (
            isinstance(item, Message)
            and is_well_made(item)
            and (item.session, item.run) == (expected.session, author.run)
        ):
            writer = expected.find_writer(item.writer)
            if writer is not None and 0 < item.seq <= writer.leased and writer.is_in_flight(item.seq):
                found.append((item.writer, item.seq))
    return found


def _repeated(expected: ExpectedSession, seen: list[MessageId], rules: Rules) -> list[Finding]:
    if rules.contract.duplicates is Duplicates.AT_LEAST_ONCE:
        return []
    return [
        Finding(Kind.DUPLICATED, name_of(expected, place), place, "stands twice in one read", seen.index(place))
        for place, count in Counter(seen).items()
        if count > 1
    ]


def vanished_from(
    expected: ExpectedSession, seen: list[MessageId], read: Read, rules: Rules, *, asks_primary: bool
) -> list[MessageId]:
    """Return what others saw although nobody had acknowledged it, and what the verifier's full read does not show.

    Where reads may be behind for ever, only the primary, if it can be asked, says that it is gone.
    """
    contract = rules.contract
    if expected.forgets is not None or contract.retained_messages is not None or contract.eviction_allowed:
        return []
    if contract.staleness_us is None and not asks_primary:
        return []
    if may_have_expired(expected, expected.last_returned, rules):
        return []
    since = read.invoked - rules.clock_epsilon_us
    if contract.ttl_seconds is not None and (expected.span is None or 0 < expected.span.reborn >= since):
        return []  # it may have been of an earlier life
    shown = set(expected.unsettled_names())
    return [
        (number, seq)
        for number, seq in dict.fromkeys(seen)
        if not any(seq in seqs for seqs in _decided(expected.writers[number])) and (number, seq) not in shown
    ]


def _decided(writer: WriterBook) -> tuple[Intervals, ...]:
    return writer.acked, writer.standing, writer.failed, writer.excused


def _judge_window(
    expected: ExpectedSession,
    invoked: int,
    last: int | None,
    seen: list[MessageId],
    acked: set[MessageId],
    acked_times: Mapping[MessageId, tuple[int, int]],
    rules: Rules,
) -> PartialJudgement:
    whole = [*expected.names_in_order(), *expected.unsettled_names()]
    # A participant may know of an acknowledgement before the ledger tells.
    unsure = {
        one for one in {*whole, *seen} if one not in acked_times and not expected.writers[one[0]].bears_order(one[1])
    }
    attempts = [one for one in (*expected.recent, *expected.pending) if one.outcome == Outcome.OK]
    known = {(one.writer, one.seq): (one.sent, one.ended) for one in attempts} | dict(acked_times)
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
        missed = _older_instead(seen, acked & set(whole) - unsure, known, rules)
    for found in missed:
        if found.kind is Kind.STALE:
            lag = max(0, invoked - times.get(found.place, invoked)) / 1e6
            is_broken = breaks_freshness(lag, Kind.STALE, rules)
            late.append(Late(Kind.STALE, found.place, lag, found.detail, is_broken))
        else:
            name = name_of(expected, found.place)
            findings.append(Finding(found.kind, name, found.place, found.detail, at.get(found.place, -1)))
    return PartialJudgement(findings, late, [])


def _older_instead(
    seen: list[MessageId], acked: set[MessageId], known: Mapping[MessageId, tuple[int, int]], rules: Rules
) -> list[WindowFinding]:
    """Find what a window lacked while something stood in it that is older, where nothing of it is left to compare."""
    contract = rules.contract
    if contract.duplicates is Duplicates.AT_LEAST_ONCE or contract.order is Order.NONE:
        return []
    detail = "acknowledged before the read, which showed something older in its place"
    return [
        WindowFinding(Kind.STALE, place, detail)
        for place in sorted(acked - set(seen))
        if place in known
        and any(
            other in known
            and known[other][1] + rules.clock_epsilon_us < known[place][0]
            and (contract.order is Order.REALTIME or other[0] == place[0])
            for other in seen
        )
    ]


NEAREST = 10
"""How many messages are asked for at first."""
WIDE_MAX = 1_000
"""How many are asked for at most when a message is looked for in earnest."""
WIDE_ROOM = 100
"""Places for what is said while the search is under way."""

FOUND_SHARE_MIN = 0.5
"""Of the stored messages that are asked for by their own words, the least that any search has to find."""


class SearchFate(enum.Enum):
    """What became of a message that a search had missed."""

    OPEN = "open"
    FOUND = "found"
    """A later search shows it."""
    UNFINDABLE = "unfindable"
    OVER = "over"
    """It need not be found any more, or nothing is known of it."""


class WideSearch(enum.Enum):
    """What a wide search says of a message that the nearest answers lacked."""

    NOT_EXPECTED = "not_expected"
    FOUND = "found_wide"
    NOT_FOUND = "not_found"
    """It is missed, and that is no promise, or reported already."""
    SUSPECTED = "suspected"


class Again(NamedTuple):
    """All that a second search for a message goes by."""

    book: ExpectedSession
    missed: Missed
    search: Read
    """The later search."""
    limit: int
    whole: Read
    """A whole read that was invoked after it had returned."""
    rules: Rules
    faults: Sequence[FaultWindow]
    """Those of the servers that the store depends on."""
    is_calm: bool
    final_us: int | None
    """How long after the first search that lacked it another one is the last word; None: it never is."""


def wide_limit(messages: int) -> int:
    """Return how many to ask for so that a session of so many messages fits, up to what is bearable."""
    return min(messages + WIDE_ROOM, WIDE_MAX)


def judge_search(
    expected: ExpectedSession, read: Read, asked: MessageId, limit: int, rules: Rules, author: MessageGenerator
) -> list[Finding]:
    """Judge what stands in the answer to a search."""
    findings: list[Finding] = []
    places: list[MessageId | None] = []
    for index, item in enumerate(read.items):
        place, finding = identify(expected, item, author, index)
        places.append(place)
        if finding is not None:
            findings.append(finding)
    counts = Counter(place for place in places if place is not None)
    find_duplicates(expected, places, counts, rules, findings)
    find_resurrected(expected, list(counts), places, read, rules, findings)
    if len(read.items) > limit:
        detail = f"a search for its words returned {len(read.items)} messages, {limit} were asked for"
        findings.append(Finding(Kind.WINDOW, name_of(expected, asked), asked, detail, limit))
    return findings[:FINDINGS_MAX]


def is_missed(read: Read, asked: Message, limit: int) -> bool:
    """Whether an answer lacks the message whose own words were asked for, and nothing in it explains that."""
    equals = 0
    for item in read.items:
        if not isinstance(item, Message) or not is_well_made(item) or item.name == asked.name:
            return False  # what cannot be read may be the one
        equals += item.content == asked.content
    # Which of many messages that say the same come first is nobody's promise.
    return equals < max(1, len(read.items)) or equals < min(limit, NEAREST)


def is_promised(rules: Rules) -> bool:
    """Whether a message that is stored has to be found by its own words; where the index is approximate, most are."""
    return rules.contract.search is Searches.EXACT


def is_blind(found: int, asked: int) -> bool:
    """Whether so few of the stored messages that were asked for were found that nothing can be said for this search.

    Also an approximate index finds most: one that finds next to nothing is broken, and must not pass for one.
    """
    return not found or found < FOUND_SHARE_MIN * asked


def is_due(expected: ExpectedSession, place: MessageId, read: Read, rules: Rules) -> bool:
    """Whether a search had to find a message that a whole read has shown.

    It was acknowledged: of an unknown append half may have happened. And nobody is about to erase it: of a forget that
    is under way, or in doubt, half may have happened just as well.
    """
    writer = expected.find_writer(place[0])
    if writer is None or place[1] not in read.acked.get(place[0], NOTHING):
        return False
    if expected.forget_in_doubt or may_have_expired(expected, read.returned, rules):
        return False
    return not any(place[1] in seqs for seqs in (writer.unknown, writer.excused, writer.gone, writer.failed))


def places_in(read: Read, session: str, run: str) -> set[MessageId]:
    """Return which messages of a session an answer shows, whatever else is wrong with them."""
    items = [item for item in read.items if isinstance(item, Message) and is_well_made(item)]
    return {(item.writer, item.seq) for item in items if item.session == session and item.run == run}


def search_again(again: Again, author: MessageGenerator) -> tuple[SearchFate, Finding | Late | None]:
    """Hold a later search, and the whole read behind it, against what an earlier search missed."""
    expected, missed, place = again.book, again.missed, again.missed.place
    asked = author.write(expected.session, *place)
    at = next((at for at, item in enumerate(again.whole.items) if _is_it(item, asked)), None)
    if any(_is_it(item, asked) for item in again.search.items):
        return SearchFate.FOUND, _late(missed, again.rules)
    if at is None or not is_missed(again.search, asked, again.limit):
        return SearchFate.OVER, None
    if not is_due(expected, place, again.search, again.rules) or _may_be_taken(again):
        return SearchFate.OVER, None
    apart = again.search.invoked - missed.returned
    if again.final_us is None or not again.is_calm or apart < again.final_us:
        return SearchFate.OPEN, None
    detail = (
        f"stands in the history, at {at} of {len(again.whole.items)}; two searches for its own words, "
        f"{apart / 1e6:.1f} s apart, did not show it, the last among {len(again.search.items)} messages"
    )
    return SearchFate.UNFINDABLE, Finding(Kind.UNFINDABLE, name_of(expected, place), place, detail, at)


def _is_it(item: object, asked: Message) -> bool:
    return isinstance(item, Message) and is_well_made(item) and item.name == asked.name


def _may_be_taken(again: Again) -> bool:
    """Whether a fault may have taken what is searched of it, by the contract, and left the rest.

    It need not be a tail: the messages may be on one server and their vectors on another, and what survived on the one
    says nothing about the other. Of what was acknowledged so long ago that nobody knows when, nothing is claimed.
    """
    acknowledged, epsilon = again.missed.acknowledged, again.rules.clock_epsilon_us
    for window in again.faults:
        allowed = allowed_loss_seconds(window, again.rules.contract)
        if allowed == 0.0 or window.started > again.missed.returned + epsilon:
            continue
        if allowed is None or not acknowledged or window.ended is None:
            return True
        reach = int(allowed * 1e6) + epsilon
        if any(gone - reach <= acknowledged <= back + epsilon for gone, back in window.moments):
            return True
    return False


def _late(missed: Missed, rules: Rules) -> Late:
    lag = max(0, missed.invoked - missed.acknowledged) / 1e6 if missed.acknowledged else 0.0
    detail = f"a search for its own words, {lag:.3f} s after its acknowledgement, did not show it; a later one does"
    return Late(Kind.STALE, missed.place, lag, detail, breaks_freshness(lag, Kind.STALE, rules))
