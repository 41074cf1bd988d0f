"""A case gives back the verdict it was made of, whatever stands in its reads."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from soak.checker.case import CannotDeriveError, Case, FullRead, derive, found_of, replay
from soak.checker.expected_session import ExpectedSession
from soak.checker.intervals import Intervals
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.message import Garbled
from soak.checker.read import RAW_BYTES_MAX, Read, SavedRead, restore, save
from soak.checker.session import unpacked
from tests.support.checker.cases import Plan, case_of, checker_of, confirmed, grow, kept, mangled
from tests.support.checker.correct_store import AUTHOR, PLANS, RULES, SESSION, step


@given(PLANS, st.integers(1, 3), st.data())
def test_a_read_that_was_kept_is_judged_as_it_was(plan: Plan, writers: int, data: st.DataObject) -> None:
    store = grow(plan, writers)
    read = store.read(data.draw(mangled(store.messages())))
    absent = judge(store.book, read, RULES, AUTHOR).absent
    observed = checker_of(store).observe(read)
    if observed.before is None:
        assert confirmed(observed) == []
        return
    case = kept(case_of(unpacked(observed.before), FullRead(read=save(read, SESSION, AUTHOR))))
    assert judge(case.book, restore(case.basis.read, SESSION, AUTHOR), case.rules, AUTHOR).absent == absent
    assert derive(case) == confirmed(observed)


@given(PLANS, st.integers(1, 3), st.sampled_from([0, 10**9]), st.data())
def test_a_second_read_that_was_kept_comes_to_the_same(
    plan: Plan, writers: int, settle_us: int, data: st.DataObject
) -> None:
    store = grow(plan, writers)
    checker_of(store).observe(store.read(data.draw(mangled(store.messages()))))
    assume(store.book.suspicions is not None)
    for what, writer in data.draw(PLANS):
        if what != "read":
            step(store, what, writer)
    second = store.read(data.draw(mangled(store.messages())))
    observed = checker_of(store, settle_us).observe(second)
    assert observed.before is not None
    case = kept(case_of(unpacked(observed.before), FullRead(read=save(second, SESSION, AUTHOR)), settle_us))
    assert derive(case) == confirmed(observed)


def lost_case() -> Case:
    """Message 2 of 3 is gone."""
    store = grow([("send", 0), ("OK", 0)] * 3, 1)
    items: list[object] = [message for message in store.messages() if message.seq != 2]
    checker_of(store).observe(store.read(items))
    found = found_of(Kind.LOST, [(f"{SESSION}/0/2", (0, 2), Kind.LOST.sentence)])
    case = case_of(store.book, FullRead(read=save(store.read(items), SESSION, AUTHOR)))
    return msgspec.structs.replace(case, found=found)


def test_a_loss_is_derived_again_and_deriving_changes_nothing() -> None:
    case = kept(lost_case())
    before = msgspec.json.encode(case)
    assert replay(case).is_same
    assert replay(case).is_same
    assert msgspec.json.encode(case) == before


def changed_read(case: Case, **fields: object) -> Case:
    assert isinstance(case.basis, FullRead)
    read = msgspec.structs.replace(case.basis.read, **fields)
    return msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, read=read))


def test_a_loss_is_not_confirmed_by_a_read_that_came_too_soon() -> None:
    case = lost_case()
    assert isinstance(case.basis, FullRead)
    hasty = msgspec.structs.replace(case, settle_us=10**9)
    assert replay(hasty).missing == [f"{SESSION}/0/2"]


def test_a_loss_is_not_confirmed_without_the_word_of_a_primary_that_has_to_be_asked() -> None:
    case = lost_case()
    assert isinstance(case.basis, FullRead)
    asking = msgspec.structs.replace(case, asks_primary=True)
    assert derive(asking) == []
    shows_all = SavedRead(invoked=10**7, returned=10**7, count=3, items=[(0, 1, 3)])
    has_it = msgspec.structs.replace(asking.basis, primary=shows_all)
    assert [one.kind for one in derive(msgspec.structs.replace(asking, basis=has_it))] == [Kind.STALE]
    lacks_it = msgspec.structs.replace(asking.basis, primary=case.basis.read)
    assert replay(msgspec.structs.replace(asking, basis=lacks_it)).is_same


@pytest.mark.parametrize(
    "damaged",
    [
        changed_read(lost_case(), count=7),
        changed_read(lost_case(), items=[(0, 1, 10**15)]),
        changed_read(lost_case(), cut="half of it"),
        msgspec.structs.replace(lost_case(), book=ExpectedSession(SESSION, "redis-list", length=5)),
        changed_read(lost_case(), acked={0: Intervals([1, 10**15])}),
    ],
)
def test_a_case_that_cannot_be_whole_is_refused_and_not_guessed_at(damaged: Case) -> None:
    with pytest.raises(CannotDeriveError):
        derive(damaged)


def test_a_read_with_too_much_that_is_strange_is_cut_and_says_so() -> None:
    rows = [Garbled(bytes([index]) * (RAW_BYTES_MAX // 4), "no message") for index in range(6)]
    kept_read = save(Read(invoked=1, returned=2, acked={}, items=rows), SESSION, AUTHOR)
    assert kept_read.cut
    assert len(kept_read.items) == 4


def test_what_appears_in_front_of_what_was_read_is_news_unless_it_had_been_missed() -> None:
    store = grow([("send", 0), ("OK", 0)] * 3, 1)
    items: list[object] = [message for message in store.messages() if message.seq != 2]
    checker_of(store).observe(store.read(items))
    basis = FullRead(read=save(store.read(), SESSION, AUTHOR))
    assert [(one.kind, one.message) for one in derive(case_of(store.book, basis))] == [(Kind.STALE, f"{SESSION}/0/2")]
    store.book.suspicions = None
    news = derive(case_of(store.book, basis))
    assert [(one.kind, one.message) for one in news] == [(Kind.NON_MONOTONIC, f"{SESSION}/0/2")]
