"""Whether messages stand in an order in which they can have been said.

Three promises: a writer's own messages in the order of their numbers; what was acknowledged before something else was
sent stands before it; and what one read showed in an order, no later read shows in another. An unknown write bears none
of them against what was sent after it.
"""

from __future__ import annotations

from soak.checker.attempt import Attempt
from soak.checker.contract import Order
from soak.checker.expected_session import ExpectedSession, names_in
from soak.checker.kinds import Kind
from soak.checker.outcome import Outcome
from soak.checker.read import Finding, MessageId, Rules, Run, name_of


def order_findings(
    book: ExpectedSession, unique: list[MessageId], places: list[MessageId | None], rules: Rules
) -> list[Finding]:
    """Find what stands in a wrong order. Names that stand twice are left out: that is another wrong."""
    index_of = {place: index for index, place in enumerate(places) if place is not None}
    wrong: dict[MessageId, tuple[Kind, str]] = {}
    for place, detail in _writer_order(book, unique):
        wrong.setdefault(place, (Kind.REORDERED, detail))
    if rules.contract.order is Order.REALTIME:
        for place, detail in realtime_findings(book, unique, rules, whole=True):
            wrong.setdefault(place, (Kind.REORDERED, detail))
    changed, appeared = _changed_order(book, unique)
    for place, detail in changed:
        wrong.setdefault(place, (Kind.REORDERED, detail))
    if rules.contract.order is Order.REALTIME and not wrong:
        # Where the order itself is wrong, that something appeared in the middle is the same wrong once more.
        wrong = {place: (Kind.NON_MONOTONIC, detail) for place, detail in appeared}
    return [
        Finding(kind, name_of(book, place), place, detail, index_of.get(place, -1))
        for place, (kind, detail) in wrong.items()
    ]


def _writer_order(book: ExpectedSession, names: list[MessageId]) -> list[tuple[MessageId, str]]:
    wrong = []
    largest: dict[int, int] = {}
    for writer, seq in names:
        before = largest.get(writer, 0)
        if seq > before:
            largest[writer] = seq
        elif book.writers[writer].bears_order(seq):
            wrong.append(((writer, seq), f"stands after {book.session}/{writer}/{before} of the same writer"))
    return wrong


def is_in_time_order(book: ExpectedSession, fresh: list[Run], rules: Rules) -> bool:
    """Whether new messages stand behind all that was sent after they had been acknowledged."""
    if len(book.writers) == 1 and _was_in_turn(book, rules):
        return True
    return not realtime_findings(book, list(names_in(fresh)), rules)


def _was_in_turn(book: ExpectedSession, rules: Rules) -> bool:
    """Whether the only writer sent nothing that is not verified before the one in front of it was acknowledged.

    Then it stands in order wherever its numbers do, and nobody's times need be looked up by name.
    """
    standing, latest, before = book.writers[0].standing, book.latest_sent, 0
    for attempts in (book.recent, book.pending):
        for attempt in attempts:
            if attempts is book.recent and attempt.seq in standing:
                continue
            if attempt.seq <= before or attempt.ended + rules.clock_epsilon_us < latest:
                return False
            before = attempt.seq
            latest = max(latest, attempt.sent)
    return True


def realtime_findings(
    book: ExpectedSession, names: list[MessageId], rules: Rules, *, whole: bool = False
) -> list[tuple[MessageId, str]]:
    """Find what was acknowledged before something that stands in front of it was even sent."""
    times: dict[MessageId, Attempt] = {
        (attempt.writer, attempt.seq): attempt for attempt in (*book.recent, *book.pending)
    }
    newest = (book.latest_writer, book.latest_seq)
    latest, latest_by = (0, (0, 0)) if whole else (book.latest_sent, newest)
    if whole and book.length:
        # Times of the verified part are gone, but the latest of them is known, and where it stands.
        times.setdefault(newest, Attempt(0, *newest, 0, book.latest_sent, _NEVER))
    wrong = []
    for place in names:
        attempt = times.get(place)
        if attempt is None:
            continue
        # An unknown write was applied nobody knows when, but not before it was sent.
        if attempt.outcome == Outcome.OK and attempt.ended + rules.clock_epsilon_us < latest:
            gap = (latest - attempt.ended) / 1e6
            other = name_of(book, latest_by)
            wrong.append((place, f"stands after {other}, which was sent {gap:.3f} s after it had been acknowledged"))
        if attempt.sent > latest:
            latest, latest_by = attempt.sent, place
    return wrong


_NEVER = 2**62


def _changed_order(
    book: ExpectedSession, names: list[MessageId]
) -> tuple[list[tuple[MessageId, str]], list[tuple[MessageId, str]]]:
    """Find what an earlier read had in another order, and what has appeared in front of what it had."""
    before = {place: index for index, place in enumerate((*book.names_in_order(), *book.unsettled_names()))}
    changed: list[tuple[MessageId, str]] = []
    appeared: list[tuple[MessageId, str]] = []
    furthest, furthest_place = -1, (0, 0)
    unseen: list[MessageId] = []
    for place in names:
        index = before.get(place)
        if index is None:
            unseen.append(place)
            continue
        if index < furthest:
            changed.append((place, f"stands after {name_of(book, furthest_place)}; an earlier read had it before"))
        else:
            furthest, furthest_place = index, place
        appeared += [
            (other, f"appeared in front of {name_of(book, place)}, which had been read without it")
            for other in unseen
            if book.writers[other[0]].bears_order(other[1])
            # What had rightly gone may be back where it stood: a crash may undo a trim as well as an append.
            and other[1] not in book.writers[other[0]].excused
        ]
        unseen = []
    return changed, appeared
