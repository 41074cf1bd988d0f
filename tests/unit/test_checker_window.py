"""A read of the last N, judged by a later whole read."""

from __future__ import annotations

import pytest

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.kinds import Kind
from soak.checker.order import judge_window
from soak.checker.read import MessageId

WHOLE: list[MessageId] = [(0, seq) for seq in range(1, 21)]
ALL = set(WHOLE)


def kinds(
    last: int | None, seen: list[MessageId], *, acked: set[MessageId] = ALL, unsure: set[MessageId] | None = None
) -> set[Kind]:
    return {finding.kind for finding in judge_window(last, seen, acked, WHOLE, unsure or set())}


def test_the_last_messages_are_a_window() -> None:
    assert kinds(5, WHOLE[-5:]) == set()
    assert kinds(None, WHOLE) == set()
    assert kinds(50, WHOLE) == set()


def test_the_end_as_it_was_when_the_read_was_invoked_is_a_window() -> None:
    assert kinds(5, WHOLE[5:10], acked=set(WHOLE[:10])) == set()


def test_what_was_in_flight_may_be_there_or_not() -> None:
    assert kinds(5, WHOLE[6:11], acked=set(WHOLE[:10])) == set()


@pytest.mark.parametrize(
    ("last", "seen", "kind"),
    [
        (5, WHOLE[-6:], Kind.WINDOW),
        (5, WHOLE[-4:], Kind.WINDOW),
        (5, [*WHOLE[-6:-3], *WHOLE[-2:]], Kind.WINDOW),
        (5, WHOLE[:5], Kind.WINDOW),
        (None, WHOLE[1:], Kind.WINDOW),
        (5, WHOLE[-7:-2], Kind.STALE),
        (5, [], Kind.STALE),
        (None, WHOLE[:-1], Kind.STALE),
        (5, [*WHOLE[-5:-2], WHOLE[-1], WHOLE[-2]], Kind.REORDERED),
    ],
    ids=[
        "too many", "too few", "a hole", "the oldest", "the oldest is missing", "an earlier end", "empty",
        "the newest is missing", "another order",
    ],
)  # fmt: skip
def test_what_is_no_window_is_told_by_its_kind(last: int | None, seen: list[MessageId], kind: Kind) -> None:
    assert kinds(last, seen) == {kind}


def test_each_missing_message_is_named() -> None:
    findings = judge_window(5, WHOLE[-7:-2], ALL, WHOLE, set())
    assert [finding.place for finding in findings] == WHOLE[-2:]
    findings = judge_window(5, WHOLE[-2:], ALL, WHOLE, set())
    assert [finding.place for finding in findings] == WHOLE[-5:-2], "of the older ones those that had room"


def test_what_may_stand_anywhere_is_left_out_on_both_sides() -> None:
    unsure = {(0, 18)}
    assert kinds(5, [*WHOLE[-6:-3], *WHOLE[-2:]], unsure=unsure) == set()
    assert kinds(5, [WHOLE[-3], *WHOLE[-5:-3], *WHOLE[-2:]], unsure=unsure) == set()


def test_a_read_that_showed_what_is_gone_since_cannot_be_placed() -> None:
    assert kinds(5, [*WHOLE[-4:], (0, 21)]) == set()


def test_an_unknown_write_that_was_seen_took_up_a_place() -> None:
    assert judge_window(1, [(0, 2)], {(0, 1)}, [(0, 1), (0, 2)], {(0, 2)}) == []


@pytest.mark.parametrize("contract", [Contract(duplicates=Duplicates.AT_LEAST_ONCE), Contract(order=Order.NONE)])
def test_where_nobody_knows_which_are_the_last_nothing_may_be_missing_while_there_is_room(contract: Contract) -> None:
    findings = judge_window(5, WHOLE[:3], set(WHOLE[:4]), WHOLE, {WHOLE[1]}, contract)
    assert [(finding.kind, finding.place) for finding in findings] == [(Kind.STALE, WHOLE[3])]
    for seen in (WHOLE[:5], [*WHOLE[:3], *WHOLE[:2]]):
        assert judge_window(5, seen, set(WHOLE[:6]), WHOLE, set(), contract) == []
