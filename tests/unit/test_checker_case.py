"""A case gives back the verdict it was made of, whatever stands in its reads."""

from __future__ import annotations

import msgspec
import pytest
from correct_store import AUTHOR, PLANS, RULES, SESSION, CorrectStore, step
from hypothesis import assume, given
from hypothesis import strategies as st

from soak.checker.case import Basis, CannotDeriveError, Case, Derived, FullRead, derive, found_of, replay, told
from soak.checker.events import Confirmed, Observed
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultHistory
from soak.checker.intervals import Intervals
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.message import Garbled, Message
from soak.checker.read import Read
from soak.checker.saved import RAW_BYTES_MAX, restore, save
from soak.checker.saved_read import SavedRead
from soak.checker.session import SessionChecker, unpacked
from soak.checker.store_judging import StoreJudging
from soak.checker.text import MessageGenerator

Plan = list[tuple[str, int]]

STRANGE: list[object] = [
    Garbled(b"\xc1\x00", "no message"),
    Garbled(b"", ""),
    AUTHOR.write("w1-2-chat", 0, 1),
    MessageGenerator("r2", 7).write(SESSION, 0, 1),
    AUTHOR.write(SESSION, 0, 5_000),
    AUTHOR.write(SESSION, 77, 1),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), content="half a \ud83d character"),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 2), role="\udcff"),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), checksum=0),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), seq=2**80),
    msgspec.structs.replace(AUTHOR.write(SESSION, 0, 1), session="elsewhere\x1b[2J\udc80"),
    Message("r1", SESSION, 0, 1, None, b"bytes", 0),  # type: ignore[arg-type]
    Message("r1", SESSION, "0", 1.5, "user", "text", 0),  # type: ignore[arg-type]
    None,
    {"role": "user"},
    "text",
]


STORE, SERVER = "redis-list", "redis"


def checker_of(store: CorrectStore, settle_us: int = 0) -> SessionChecker:
    faults = FaultHistory({STORE: [SERVER]})
    judging = StoreJudging(rules=RULES, author=AUTHOR, faults=faults, targets=[SERVER], settle_us=settle_us)
    return SessionChecker(judging, store.book)


def grow(plan: Plan, writers: int) -> CorrectStore:
    store = CorrectStore(writers)
    for what, writer in plan:
        if what == "read":
            checker_of(store).observe(store.read())
        else:
            step(store, what, writer)
    return store


def kept(case: Case) -> Case:
    """Return a case as it comes back from the disk."""
    return msgspec.json.decode(msgspec.json.encode(case), type=Case)


def case_of(book: ExpectedSession, basis: Basis, settle_us: int = 0) -> Case:
    return Case(
        run=AUTHOR.run,
        seed=7,
        store=STORE,
        session=SESSION,
        rules=RULES,
        settle_us=settle_us,
        targets={STORE: [SERVER]},
        book=book,
        basis=basis,
        found=found_of(Kind.LOST, [(f"{SESSION}/0/1", (0, 1), "gone")]),
    )


def confirmed(observed: Observed) -> list[Derived]:
    return [
        Derived(event.kind, told(wrong.message), told(wrong.detail))
        for event in observed.events
        if isinstance(event, Confirmed)
        for wrong in event.wrong
    ]


@st.composite
def mangled(draw: st.DrawFn, items: list[Message]) -> list[object]:
    """Drop, move, repeat and replace what a store would have shown."""
    made: list[object] = list(items)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(made) - 1)))
        change = draw(st.sampled_from(["drop", "swap", "repeat", "strange", "alter"]))
        if change == "strange" or not made:
            made.insert(at, draw(st.sampled_from(STRANGE)))
        elif change == "drop":
            del made[at]
        elif change == "swap":
            made[at], made[0] = made[0], made[at]
        elif change == "repeat":
            made.append(made[at])
        elif isinstance(made[at], Message):
            made[at] = msgspec.structs.replace(made[at], content="altered")  # type: ignore[type-var]
    return made


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
