"""Searches of a right store accuse nobody, whatever it leaves out by right; each wrong is told by its name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from soak.checker.case import CannotDeriveError, Case, Derived, SearchRead, SecondSearch, derive, found_of, replay
from soak.checker.contract import Contract, Reads
from soak.checker.events import Want
from soak.checker.incidents import Missed
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Message
from soak.checker.outcome import Outcome
from soak.checker.partial import (
    NEAREST,
    WIDE_MAX,
    WIDE_ROOM,
    Again,
    SearchFate,
    WideSearch,
    is_blind,
    is_due,
    is_missed,
    judge_search,
    search_again,
    wide_limit,
)
from soak.checker.read import Read, Rules, SavedRead, save
from soak.checker.retention import end_forget
from soak.checker.second_look import Late
from soak.checker.session import unpacked
from tests.support.checker.cases import case_of, checker_of, confirmed, grow, kept, mangled
from tests.support.checker.correct_store import AUTHOR, PLANS, RULES, SESSION, CorrectStore

Plan = list[tuple[str, int]]
TALKED: Plan = [("send", 0), ("OK", 0)] * 3
SETTLE_US = 500


def nearest(store: CorrectStore, asked: Message, limit: int) -> list[object]:
    """Answer as a right store does, with what says the same in the least helpful order."""
    ranked = sorted(store.messages(), key=lambda one: (one.content != asked.content, one.name == asked.name))
    return list(ranked[:limit])


@given(PLANS, st.integers(1, 5), st.integers(1, 30), st.data())
def test_a_right_answer_is_never_accused_and_never_lacks_what_was_asked_for(
    plan: Plan, writers: int, limit: int, data: st.DataObject
) -> None:
    store = grow([*plan, ("read", 0)], writers)
    assume(store.items)
    place = data.draw(st.sampled_from(store.items))
    asked = AUTHOR.write(SESSION, *place)
    read = store.read(nearest(store, asked, limit))
    assert judge_search(store.book, read, place, limit, RULES, AUTHOR) == []
    equals = [one for one in store.messages() if one.content == asked.content]
    # An answer of few that all say the same may come from a session that has no more to say.
    if len(equals) <= limit or limit >= NEAREST:
        assert not is_missed(read, asked, limit)


@given(PLANS, st.integers(1, 5), st.data())
def test_one_that_is_left_out_of_a_wide_answer_is_missed(plan: Plan, writers: int, data: st.DataObject) -> None:
    store = grow([*plan, ("read", 0)], writers)
    assume(store.items)
    asked = AUTHOR.write(SESSION, *data.draw(st.sampled_from(store.items)))
    rest = [one for one in store.messages() if one.name != asked.name]
    only_equals = bool(rest) and all(one.content == asked.content for one in rest)
    read = store.read(list(rest))
    assert is_missed(read, asked, wide_limit(len(rest))) == (not only_equals or len(rest) < NEAREST)


@given(PLANS, st.integers(1, 3), st.data())
def test_a_search_that_was_kept_is_judged_as_it_was(plan: Plan, writers: int, data: st.DataObject) -> None:
    store = grow(plan, writers)
    read = store.read(data.draw(mangled(store.messages())))
    limit = data.draw(st.integers(0, 5))
    observed = checker_of(store).observe_search(read, (0, 1), limit)
    assert observed.before is not None
    basis = SearchRead(read=save(read, SESSION, AUTHOR), asked=(0, 1), limit=limit)
    assert derive(kept(case_of(unpacked(observed.before), basis))) == confirmed(observed)


@given(PLANS, st.integers(1, 3), st.sampled_from([0, 10**9]), st.data())
def test_a_second_search_that_was_kept_comes_to_the_same(
    plan: Plan, writers: int, final_us: int, data: st.DataObject
) -> None:
    store = grow([*plan, ("read", 0)], writers)
    assume(store.items)
    place = data.draw(st.sampled_from(store.items))
    first, second = (store.read(data.draw(mangled(store.messages()))) for _ in range(2))
    again = again_of(store, place, first, second, store.read(data.draw(mangled(store.messages()))), final_us)
    _, told = search_again(again, AUTHOR)
    derived = derive(kept(second_case(store, again)))
    if told is None:
        assert derived == []
    elif isinstance(told, Late):
        assert [one.kind for one in derived] == [Kind.STALE]
    else:
        assert derived == [Derived(Kind.UNFINDABLE, f"{SESSION}/{place[0]}/{place[1]}", told.detail)]
    assert search_again(again._replace(is_calm=False), AUTHOR)[0] is not SearchFate.UNFINDABLE


def again_of(
    store: CorrectStore,
    place: tuple[int, int],
    first: Read,
    second: Read,
    whole: Read,
    final_us: int | None = SETTLE_US,
    rules: Rules = RULES,
) -> Again:
    limit = wide_limit(len(store.items))
    missed = Missed(
        place=place,
        invoked=first.invoked,
        returned=first.returned,
        limit=limit,
        answer=save(first, SESSION, AUTHOR),
    )
    return Again(store.book, missed, second, limit, whole, rules, faults=[], is_calm=True, final_us=final_us)


def second_case(store: CorrectStore, again: Again) -> Case:
    basis = SecondSearch(
        missed=again.missed,
        search=save(again.search, SESSION, AUTHOR),
        limit=again.limit,
        read=save(again.whole, SESSION, AUTHOR),
    )
    return case_of(store.book, basis, again.final_us or 0)


def not_indexed(store: CorrectStore, seq: int = 2) -> list[object]:
    return [message for message in store.messages() if message.seq != seq]


def unfindable_case() -> Case:
    """Message 2 of 3 is stored, and no search shows it."""
    store = grow([*TALKED, ("read", 0)], 1)
    again = again_of(store, (0, 2), store.read(not_indexed(store)), store.read(not_indexed(store)), store.read())
    _, told = search_again(again, AUTHOR)
    assert told is not None
    found = found_of(Kind.UNFINDABLE, [(f"{SESSION}/0/2", (0, 2), told.detail)])
    return msgspec.structs.replace(second_case(store, again), found=found)


def test_what_two_searches_lack_and_a_read_shows_is_unfindable_and_derived_again() -> None:
    case = kept(unfindable_case())
    assert replay(case).is_same
    assert "at 1 of 3" in case.found.detail


def with_basis(settle_us: int = SETTLE_US, **fields: object) -> list[Kind]:
    case = msgspec.structs.replace(unfindable_case(), settle_us=settle_us)
    changed = msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, **fields))
    return [one.kind for one in derive(kept(changed))]


def test_what_a_wide_search_lacks_is_suspected_and_another_search_is_wanted() -> None:
    store = grow([*TALKED, ("read", 0)], 1)
    checker, limit = checker_of(store), wide_limit(3)
    near, shown, lacks = store.read(not_indexed(store)), store.read(), store.read(not_indexed(store))
    assert checker.observe_wide_search((0, 2), near, shown, limit) is WideSearch.FOUND
    assert checker.wants(store.tick()) is None
    assert checker.observe_wide_search((0, 2), near, lacks, limit) is WideSearch.SUSPECTED
    wanted = checker.wants(store.tick())
    assert wanted is not None
    assert wanted.want is Want.SEARCH
    assert store.book.missed is not None
    assert [(one.place, one.invoked) for one in store.book.missed] == [((0, 2), lacks.invoked)]
    store.book.intend_forget(store.tick())
    assert checker.observe_wide_search((0, 3), near, lacks, limit) is WideSearch.NOT_EXPECTED


def test_it_takes_time_calm_and_a_read_that_shows_it() -> None:
    basis = unfindable_case().basis
    assert isinstance(basis, SecondSearch)
    assert with_basis() == [Kind.UNFINDABLE]
    assert with_basis(settle_us=10**9) == [], "too soon"
    assert with_basis(read=basis.search) == [], "it is not stored either"
    assert with_basis(search=basis.read) == [Kind.STALE], "the later search shows it"
    unreadable = save(Read(invoked=10**6, returned=10**6, acked={}, items=[Garbled(b"x", "")]), SESSION, AUTHOR)
    assert with_basis(search=unreadable) == [], "what cannot be read may be it"


@pytest.mark.parametrize(
    "damaged",
    [
        {"search": SavedRead(invoked=1, returned=2, count=7)},
        {"read": SavedRead(invoked=1, returned=2, count=1, items=[(0, 1, 1)], cut="half")},
    ],
)
def test_a_second_search_that_cannot_be_whole_is_refused(damaged: dict[str, Any]) -> None:
    with pytest.raises(CannotDeriveError):
        with_basis(**damaged)


def test_an_unknown_append_is_not_due_although_it_is_there() -> None:
    store = grow([("send", 0), ("apply", 0), ("UNKNOWN", 0), ("read", 0), *TALKED, ("read", 0)], 1)
    read = store.read()
    assert not is_due(store.book, (0, 1), read, RULES)
    assert is_due(store.book, (0, 2), read, RULES)
    assert not is_due(store.book, (0, 9), read, RULES), "never sent"
    assert not is_due(store.book, (7, 1), read, RULES), "by nobody"


def test_what_is_being_forgotten_or_is_forgotten_is_not_due() -> None:
    store = grow([*TALKED, ("read", 0)], 1)
    read = store.read()
    store.book.intend_forget(store.tick())
    assert not is_due(store.book, (0, 2), read, RULES)
    end_forget(store.book, Outcome.OK, store.tick(), store.tick())
    assert not is_due(store.book, (0, 2), read, RULES)
    found = judge_search(store.book, store.read(), (0, 2), NEAREST, RULES, AUTHOR)
    assert {one.kind for one in found} == {Kind.RESURRECTED}


def test_a_late_answer_breaks_a_promise_of_fresh_reads_and_no_other() -> None:
    store = grow([*TALKED, ("read", 0)], 1)
    lacking, showing = store.read(not_indexed(store)), store.read()
    for contract, is_broken in (
        (Contract(), True),
        (Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=5.0), False),
        (Contract(reads=Reads.EVENTUAL), False),
    ):
        again = again_of(store, (0, 2), lacking, showing, store.read(), rules=Rules(contract=contract))
        fate, late = search_again(again, AUTHOR)
        assert fate is SearchFate.FOUND
        assert isinstance(late, Late)
        assert late.is_broken_promise == is_broken


def test_a_search_that_finds_less_than_half_of_what_is_stored_is_blind() -> None:
    assert is_blind(0, 0), "nothing was asked for"
    assert is_blind(0, 5)
    assert is_blind(49, 100)
    assert not is_blind(50, 100)
    assert not is_blind(1, 1)


def test_a_wide_search_has_room_for_the_session_and_a_bound() -> None:
    assert wide_limit(20) == 20 + WIDE_ROOM
    assert wide_limit(10**6) == WIDE_MAX
