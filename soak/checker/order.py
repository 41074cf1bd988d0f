"""Whether messages stand in an order in which they can have been said.

Three promises: a writer's own messages in the order of their numbers; what was acknowledged before something else was
sent stands before it; and what one read showed in an order, no later read shows in another. An unknown write bears none
of them against what was sent after it.

And whether a read of the last N shows the last N of that order.
"""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.expected_session import ExpectedSession, name_of, names_in, runs_in
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Finding, MessageId, Rules, Run


def order_findings(
    expected: ExpectedSession, unique: list[MessageId], places: list[MessageId | None], rules: Rules
) -> list[Finding]:
    """Find what stands in a wrong order. Names that stand twice are left out: that is another wrong."""
    index_of = {place: index for index, place in enumerate(places) if place is not None}
    wrong: dict[MessageId, tuple[Kind, str]] = {}
    for place, detail in _writer_order(expected, unique):
        wrong.setdefault(place, (Kind.REORDERED, detail))
    if rules.contract.order is Order.REALTIME:
        inverted = realtime_findings(expected, unique, rules, whole=True) + _late_in_front(expected, unique, rules)
        for place, detail in inverted:
            wrong.setdefault(place, (Kind.REORDERED, detail))
    changed, appeared = _changed_order(expected, unique)
    for place, detail in changed:
        wrong.setdefault(place, (Kind.REORDERED, detail))
    if rules.contract.order is Order.REALTIME and not wrong:
        # Where the order itself is wrong, that something appeared in the middle is the same wrong once more.
        wrong = {place: (Kind.NON_MONOTONIC, detail) for place, detail in appeared}
    return [
        Finding(kind, name_of(expected, place), place, detail, index_of.get(place, -1))
        for place, (kind, detail) in wrong.items()
    ]


def _writer_order(expected: ExpectedSession, names: list[MessageId]) -> list[tuple[MessageId, str]]:
    wrong = []
    largest: dict[int, int] = {}
    for writer, seq in names:
        before = largest.get(writer, 0)
        if seq > before:
            largest[writer] = seq
        elif expected.writers[writer].bears_order(seq):
            wrong.append(((writer, seq), f"stands after {expected.session}/{writer}/{before} of the same writer"))
    return wrong


def is_in_time_order(expected: ExpectedSession, fresh: list[Run], rules: Rules) -> bool:
    """Whether new messages stand behind all that was sent after they had been acknowledged."""
    if len(expected.writers) == 1 and _was_in_turn(expected, rules):
        return True
    return not realtime_findings(expected, list(names_in(fresh)), rules)


def _was_in_turn(expected: ExpectedSession, rules: Rules) -> bool:
    """Whether the only writer sent nothing that is not verified before the one in front of it was acknowledged.

    Then it stands in order wherever its numbers do, and nobody's times need be looked up by name.
    """
    writer, latest, before = expected.writers[0], expected.latest_sent, 0
    # What is remembered was verified, unless it is unknown or excused.
    recent = expected.recent if writer.unknown or writer.excused else ()
    for attempts in (recent, expected.pending):
        for attempt in attempts:
            if attempts is recent and attempt.seq in writer.standing:
                continue
            if attempt.seq <= before or attempt.ended + rules.clock_epsilon_us < latest:
                return False
            before = attempt.seq
            latest = max(latest, attempt.sent)
    return True


def realtime_findings(
    expected: ExpectedSession, names: list[MessageId], rules: Rules, *, whole: bool = False
) -> list[tuple[MessageId, str]]:
    """Find what was acknowledged before something that stands in front of it was even sent."""
    times: dict[MessageId, Attempt] = {
        (attempt.writer, attempt.seq): attempt for attempt in (*expected.recent, *expected.pending)
    }
    newest = (expected.latest_writer, expected.latest_seq)
    latest, latest_by = (0, (0, 0)) if whole else (expected.latest_sent, newest)
    if whole and expected.length:
        # Times of the verified part are gone, but the latest of them is known, and where it stands.
        times.setdefault(newest, Attempt(0, *newest, 0, expected.latest_sent, _NEVER))
    wrong = []
    for place in names:
        attempt = times.get(place)
        if attempt is None:
            continue
        # An unknown write was applied nobody knows when, but not before it was sent.
        if attempt.outcome == Outcome.OK and attempt.ended + rules.clock_epsilon_us < latest:
            gap = (latest - attempt.ended) / 1e6
            other = name_of(expected, latest_by)
            wrong.append((place, f"stands after {other}, which was sent {gap:.3f} s after it had been acknowledged"))
        if attempt.sent > latest:
            latest, latest_by = attempt.sent, place
    return wrong


def _late_in_front(expected: ExpectedSession, names: list[MessageId], rules: Rules) -> list[tuple[MessageId, str]]:
    """Find what was acknowledged before an unknown write was sent that has appeared in front of it, however late."""
    at = {place: index for index, place in enumerate(names)} if expected.fronts is not None else {}
    wrong = []
    for writer, seq, sent, front_writer, front_seq, ended in expected.fronts or ():
        one, front = (writer, seq), (front_writer, front_seq)
        if one in at and front in at and at[one] < at[front] and ended + rules.clock_epsilon_us < sent:
            gap = (sent - ended) / 1e6
            other = name_of(expected, one)
            wrong.append((front, f"stands after {other}, which was sent {gap:.3f} s after it had been acknowledged"))
    return wrong


_NEVER = 2**62


def _changed_order(
    expected: ExpectedSession, names: list[MessageId]
) -> tuple[list[tuple[MessageId, str]], list[tuple[MessageId, str]]]:
    """Find what an earlier read had in another order, and what has appeared in front of what it had."""
    before = [*expected.names_in_order(), *expected.unsettled_names()]
    changed = _flipped(expected, before, names)
    if expected.glanced is not None:
        changed += _flipped(expected, [*expected.names_in_order(), *expected.glanced], names)
    # What later reads lacked, suspected or undecided, had an order in the read that showed it.
    earlier: dict[int, list[MessageId]] = {}
    for number, seq, at in expected.veiled or ():
        earlier.setdefault(at, []).append((number, seq))
    for shown in (*earlier.values(), *(list(names_in(runs_in(one.before))) for one in expected.suspicions or ())):
        changed += _flipped(expected, shown, names)
    appeared: list[tuple[MessageId, str]] = []
    known, unseen = set(before), list[MessageId]()
    for place in names:
        if place not in known:
            unseen.append(place)
            continue
        appeared += [
            (other, f"appeared in front of {name_of(expected, place)}, which had been read without it")
            for other in unseen
            if expected.writers[other[0]].bears_order(other[1])
            # What had rightly gone may be back where it stood: a crash may undo a trim as well as an append.
            and other[1] not in expected.writers[other[0]].excused
        ]
        unseen = []
    return changed, appeared


def _flipped(expected: ExpectedSession, before: list[MessageId], names: list[MessageId]) -> list[tuple[MessageId, str]]:
    """Find what stands behind a message that an earlier read had behind it."""
    index_of = {place: index for index, place in enumerate(before)}
    furthest, wrong = -1, []
    for place in names:
        index = index_of.get(place, furthest)
        if index < furthest:
            wrong.append((place, f"stands after {name_of(expected, before[furthest])}; an earlier read had it before"))
        furthest = max(furthest, index)
    return wrong


STRICTEST = Contract()
_HOLE = "missing in the middle of the window"
_OLDEST = "the oldest messages were returned, not the last"


class WindowFinding(NamedTuple):
    """What is wrong with a read of the last N."""

    kind: Kind
    place: MessageId
    detail: str


def judge_window(
    last: int | None,
    seen: list[MessageId],
    acked: set[MessageId],
    whole: list[MessageId],
    unsure: set[MessageId],
    contract: Contract = STRICTEST,
) -> list[WindowFinding]:
    """Compare what a read of the last N showed with the order a later whole read shows.

    `acked` is what had been acknowledged when it was invoked; what is not in `whole` at all is left to the search for
    lost messages. `unsure` may rightly have appeared in between at any place, so it is not missed; but where it was
    seen it took up a place. If the read is the end of the history as it was at some earlier moment it was `stale`;
    otherwise it is no window.
    """
    if last is not None and len(seen) > last:
        return [WindowFinding(Kind.WINDOW, seen[0], f"{len(seen)} messages returned, {last} asked for")]
    if contract.duplicates is Duplicates.AT_LEAST_ONCE or contract.order is Order.NONE:
        # Which the last N are is not known where messages may stand twice, or in any order. But there was room for all.
        detail = f"only {len(seen)} messages returned" + ("" if last is None else f", {last} asked for")
        left = [place for place in whole if place in acked and place not in unsure and place not in seen]
        return [WindowFinding(Kind.STALE, place, detail) for place in left] if last and len(seen) < last else []
    line = [place for place in whole if place not in unsure]
    shown = [place for place in seen if place not in unsure]
    at = {place: index for index, place in enumerate(line)}
    indexes = [at[place] for place in shown if place in at]
    if indexes != sorted(indexes):
        wrong = next(i for i in range(1, len(indexes)) if indexes[i] < indexes[i - 1])
        place = line[indexes[wrong]]
        return [WindowFinding(Kind.REORDERED, place, "stands in another order than in a later read of all")]
    anchored = [place for place in whole if place not in unsure or place in seen]
    found = _judge_gaps(last, len(seen), _indexes(seen, anchored), acked, anchored)
    if not set(seen) <= set(whole):
        # It showed something the later read does not have, or has not settled yet: where it ended is not known.
        return [one for one in found if one.detail == _HOLE]
    if contract.staleness_us != 0:
        # Where a read may be behind, the oldest messages may simply have been all there was to see.
        return [one._replace(kind=Kind.STALE) if one.detail == _OLDEST else one for one in found]
    return found


def _indexes(seen: list[MessageId], line: list[MessageId]) -> list[int]:
    at = {place: index for index, place in enumerate(line)}
    return sorted(at[place] for place in seen if place in at)


def _judge_gaps(
    last: int | None, size: int, indexes: list[int], acked: set[MessageId], line: list[MessageId]
) -> list[WindowFinding]:
    awaited = [index for index, place in enumerate(line) if place in acked]
    end = indexes[-1] if indexes else -1
    newer = [line[index] for index in awaited if index > end]
    # Inside the span it covers nothing may be missing, and before it only what no longer fits into N.
    start = indexes[0] if indexes else 0
    shown = set(indexes)
    holes = [line[index] for index in awaited if start < index < end and index not in shown]
    if holes:
        return [WindowFinding(Kind.WINDOW, place, _HOLE) for place in holes]
    older = [line[index] for index in awaited if index < start]
    if older and (last is None or size < last):
        room = len(older) if last is None else last - size
        detail = f"only {size} messages returned" + ("" if last is None else f", {last} asked for")
        return [WindowFinding(Kind.WINDOW, place, detail) for place in older[-room:]]
    if newer and last is not None and start == 0 and size >= last and len(newer) >= last:
        return [WindowFinding(Kind.WINDOW, place, _OLDEST) for place in newer]
    return [
        WindowFinding(Kind.STALE, place, "acknowledged before the read, shown only by a later one") for place in newer
    ]
