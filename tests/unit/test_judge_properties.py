"""For any legal history no violation; for any single mutation of it exactly that kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from soak.checker.absorb import absorb
from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.intervals import Intervals
from soak.checker.judge import judge, judge_tail
from soak.checker.kinds import Kind
from soak.checker.message import Garbled
from soak.checker.order import judge_window
from soak.checker.read import Judgement, Rules
from soak.checker.second_look import resolve, suspect
from tests.support.checker.correct_store import AUTHOR, PLANS, RULES, SESSION, CorrectStore, step

pytestmark = pytest.mark.no_cover

Plan = list[tuple[str, int]]


def grow(plan: Plan, writers: int) -> CorrectStore:
    """Play a plan against a correct store; every read on the way must be clean."""
    store = CorrectStore(writers)
    for what, writer in plan:
        if what == "read":
            read = store.read()
            judgement = judge(store.book, read, RULES, AUTHOR)
            assert judgement.is_clean, judgement
            absorb(store.book, judgement, read, RULES, remember_us=10**9)
        else:
            step(store, what, writer)
    return store


def kinds_of(judgement: Judgement) -> set[Kind]:
    return {finding.kind for finding in judgement.findings}


def was_seen(store: CorrectStore, place: tuple[int, int]) -> bool:
    """Whether a read has shown it, with or without its outcome."""
    return place[1] in store.book.writers[place[0]].standing or place in store.book.unsettled_names()


def acked_places(store: CorrectStore) -> list[tuple[int, int]]:
    return [place for place in store.items if store.book.writers[place[0]].bears_order(place[1])]


@given(PLANS, st.integers(1, 5))
def test_a_correct_store_is_never_accused(plan: Plan, writers: int) -> None:
    store = grow([*plan, ("read", 0)], writers)
    assert all(not writer.excused for writer in store.book.writers)


@given(PLANS, st.integers(1, 5), st.integers(1, 12))
def test_a_tail_read_of_a_correct_store_is_believed_or_left_to_a_whole_one(plan: Plan, writers: int, last: int) -> None:
    store = grow([*plan, ("read", 0), *plan], writers)
    read = store.read(store.messages()[-last:])  # type: ignore[arg-type]
    judgement = judge_tail(store.book, read, last, RULES, AUTHOR)
    if judgement is not None:
        assert judgement.is_clean
        absorb(store.book, judgement, read, RULES, remember_us=10**9, whole=False)
        after = store.read()
        assert judge(store.book, after, RULES, AUTHOR).is_clean


@given(PLANS, st.integers(1, 5), st.booleans(), st.data())
def test_a_dropped_acknowledged_message_is_absent_and_nothing_else(
    plan: Plan, writers: int, read_before: bool, data: st.DataObject
) -> None:
    store = grow([*plan, *([("read", 0)] if read_before else [])], writers)
    places = acked_places(store)
    assume(places)
    victim = data.draw(st.sampled_from(places))
    items = [m for m in store.messages() if (m.writer, m.seq) != victim]
    read = store.read(items)  # type: ignore[arg-type]
    judgement = judge(store.book, read, RULES, AUTHOR)
    assert judgement.findings == []
    assert judgement.absent == {victim[0]: Intervals([victim[1], victim[1]])}
    seen_before = was_seen(store, victim)
    (suspicion,) = suspect(store.book, judgement.absent, read, [])
    absorb(store.book, judgement, read, RULES, remember_us=10**9)
    resolution = resolve(suspicion, judgement.absent, {}, is_final=True)
    expected = {victim[0]: Intervals([victim[1], victim[1]])}
    assert (resolution.rolled_back if seen_before else resolution.lost) == expected
    assert not (resolution.lost if seen_before else resolution.rolled_back)


@given(PLANS, st.integers(1, 5), st.data())
def test_what_is_missing_once_and_there_again_is_stale_or_non_monotonic(
    plan: Plan, writers: int, data: st.DataObject
) -> None:
    store = grow(plan, writers)
    places = acked_places(store)
    assume(places)
    victim = data.draw(st.sampled_from(places))
    seen_before = was_seen(store, victim)
    read = store.read([m for m in store.messages() if (m.writer, m.seq) != victim])
    judgement = judge(store.book, read, RULES, AUTHOR)
    (suspicion,) = suspect(store.book, judgement.absent, read, [])
    absorb(store.book, judgement, read, RULES, remember_us=10**9)
    present = {victim[0]: Intervals([victim[1], victim[1]])}
    resolution = resolve(suspicion, {}, present, is_final=False)
    assert (resolution.non_monotonic if seen_before else resolution.stale) == present
    assert suspicion.is_over


@given(PLANS, st.integers(1, 5), st.booleans(), st.data())
def test_two_messages_swapped_are_reordered_and_nothing_else(
    plan: Plan, writers: int, read_before: bool, data: st.DataObject
) -> None:
    store = grow([*plan, *([("read", 0)] if read_before else [])], writers)
    book = store.book
    pairs = [
        (i, j)
        for i, one in enumerate(store.items)
        for j, other in enumerate(store.items)
        if i < j and one[0] == other[0] and one[1] < other[1] and book.writers[one[0]].bears_order(one[1])
    ]
    assume(pairs)
    i, j = data.draw(st.sampled_from(pairs))
    items = store.messages()
    items[i], items[j] = items[j], items[i]
    judgement = judge(book, store.read(items), RULES, AUTHOR)  # type: ignore[arg-type]
    assert kinds_of(judgement) == {Kind.REORDERED}
    assert not judgement.absent


@given(PLANS, st.integers(2, 5), st.data())
def test_what_was_acknowledged_before_another_was_sent_must_stand_before_it(
    plan: Plan, writers: int, data: st.DataObject
) -> None:
    store = grow([step for step in plan if step[0] != "read"], writers)
    times = {(a.writer, a.seq): a for a in store.book.pending}
    pairs = [
        (i, j)
        for i, one in enumerate(store.items)
        for j, other in enumerate(store.items)
        if one in times and other in times and one[0] != other[0] and times[one].ended < times[other].sent
    ]
    assume(pairs)
    i, j = data.draw(st.sampled_from(pairs))
    items = store.messages()
    moved = items.pop(i)
    items.insert(j, moved)
    judgement = judge(store.book, store.read(items), RULES, AUTHOR)  # type: ignore[arg-type]
    assert kinds_of(judgement) == {Kind.REORDERED}


@given(PLANS, st.integers(1, 5), st.booleans(), st.data())
def test_a_message_that_stands_twice_is_duplicated_and_nothing_else(
    plan: Plan, writers: int, read_before: bool, data: st.DataObject
) -> None:
    store = grow([*plan, *([("read", 0)] if read_before else [])], writers)
    assume(store.items)
    items = store.messages()
    items.insert(data.draw(st.integers(0, len(items))), data.draw(st.sampled_from(items)))
    judgement = judge(store.book, store.read(items), RULES, AUTHOR)  # type: ignore[arg-type]
    assert kinds_of(judgement) == {Kind.DUPLICATED}
    assert not judgement.absent


@given(PLANS, st.integers(1, 5), st.booleans(), st.data())
def test_an_altered_message_is_corrupted_and_nothing_else(
    plan: Plan, writers: int, read_before: bool, data: st.DataObject
) -> None:
    store = grow([*plan, *([("read", 0)] if read_before else [])], writers)
    assume(store.items)
    items = store.messages()
    at = data.draw(st.integers(0, len(items) - 1))
    change: dict[str, Any] = data.draw(
        st.sampled_from(
            [{"content": items[at].content + "!"}, {"role": "system"}, {"checksum": items[at].checksum ^ 1}]
        )
    )
    items[at] = msgspec.structs.replace(items[at], **change)
    judgement = judge(store.book, store.read(items), RULES, AUTHOR)  # type: ignore[arg-type]
    assert kinds_of(judgement) == {Kind.CORRUPTED}
    assert not judgement.absent


@given(PLANS, st.integers(1, 5), st.booleans(), st.data())
def test_a_row_that_is_no_message_is_undecodable_and_nothing_else(
    plan: Plan, writers: int, read_before: bool, data: st.DataObject
) -> None:
    store = grow([*plan, *([("read", 0)] if read_before else [])], writers)
    assume(store.items)
    items: list[object] = list(store.messages())
    garbled: object = data.draw(st.sampled_from([Garbled(b"\xff", "bad"), None, "text", 7]))
    items[data.draw(st.integers(0, len(items) - 1))] = garbled
    judgement = judge(store.book, store.read(items), RULES, AUTHOR)
    assert kinds_of(judgement) == {Kind.UNDECODABLE}
    assert not judgement.absent


@given(PLANS, st.integers(1, 5), st.booleans(), st.data())
def test_a_foreign_message_is_leaked_and_an_unsent_one_a_phantom(
    plan: Plan, writers: int, read_before: bool, data: st.DataObject
) -> None:
    store = grow([*plan, *([("read", 0)] if read_before else [])], writers)
    foreign = data.draw(
        st.sampled_from(
            [
                (AUTHOR.write("w1-2-chat", 0, 1), Kind.LEAKED),
                (msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), session=SESSION.upper()), Kind.UNDECODABLE),
                (type(AUTHOR)("r2", 7).write(SESSION, 0, 1), Kind.LEAKED),
                (AUTHOR.write(SESSION, 0, 5_000), Kind.PHANTOM),
                (AUTHOR.write(SESSION, 9, 1), Kind.PHANTOM),
            ]
        )
    )
    items = store.messages()
    items.insert(data.draw(st.integers(0, len(items))), foreign[0])
    judgement = judge(store.book, store.read(items), RULES, AUTHOR)  # type: ignore[arg-type]
    assert kinds_of(judgement) == {foreign[1]}
    assert not judgement.absent


@given(PLANS, st.integers(1, 5), st.data())
def test_a_refused_message_that_is_there_is_a_phantom(plan: Plan, writers: int, data: st.DataObject) -> None:
    store = grow(plan, writers)
    refused = [(number, seq) for number, writer in enumerate(store.book.writers) for seq in writer.failed]
    assume(refused)
    items = store.messages()
    items.append(AUTHOR.write(SESSION, *data.draw(st.sampled_from(refused))))
    assert Kind.PHANTOM in kinds_of(judge(store.book, store.read(items), RULES, AUTHOR))  # type: ignore[arg-type]


@given(PLANS, st.integers(1, 5), st.integers(1, 15), st.integers(0, 60))
def test_the_last_messages_at_any_earlier_moment_are_a_window_or_stale(
    plan: Plan, writers: int, last: int, cut: int
) -> None:
    store = grow([*plan, ("read", 0)], writers)
    whole = list(store.items)
    moment = whole[: cut % (len(whole) + 1)]
    unsure = {place for place in whole if not store.book.writers[place[0]].bears_order(place[1])}
    acked_then = {place for place in moment if place not in unsure}
    assert judge_window(last, moment[-last:], acked_then, whole, unsure) == []
    acked_now = {place for place in whole if place not in unsure}
    kinds = {finding.kind for finding in judge_window(last, moment[-last:], acked_now, whole, unsure)}
    missing = [place for place in whole[len(moment) :] if place not in unsure]
    assert kinds <= {Kind.STALE, Kind.WINDOW}
    assert bool(kinds) == bool(missing)


@given(st.integers(4, 40), st.integers(3, 10), st.data())
def test_a_truncated_or_holed_window_is_a_window_violation(length: int, last: int, data: st.DataObject) -> None:
    assume(length > last)
    whole = [(0, seq) for seq in range(1, length + 1)]
    good = whole[-last:]
    bad = data.draw(
        st.sampled_from(
            [
                good[1:],  # too few
                [good[0], *good[2:]],  # a hole
                whole[-last - 1 :],  # too many
            ]
        )
    )
    kinds = {finding.kind for finding in judge_window(last, bad, set(whole), whole, set())}
    assert kinds == {Kind.WINDOW}


def test_the_oldest_messages_in_place_of_the_last_are_a_window_violation() -> None:
    whole = [(0, seq) for seq in range(1, 101)]
    kinds = {finding.kind for finding in judge_window(10, whole[:10], set(whole), whole, set())}
    assert kinds == {Kind.WINDOW}


@pytest.mark.parametrize(
    ("contract", "mutate"),
    [
        (Contract(duplicates=Duplicates.AT_LEAST_ONCE), lambda items: [items[0], *items]),
        (Contract(order=Order.NONE), lambda items: list(reversed(items))),
    ],
)
def test_what_the_contract_does_not_promise_is_not_held_against_the_store(contract: Contract, mutate: object) -> None:
    store = grow([("send", 0), ("OK", 0)] * 5, 1)
    items = mutate(store.messages())  # type: ignore[operator]
    assert judge(store.book, store.read(items), Rules(contract=contract), AUTHOR).is_clean
    assert not judge(store.book, store.read(items), RULES, AUTHOR).is_clean
