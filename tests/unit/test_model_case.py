"""A case gives back the verdict it was made of, whatever stands in its reads."""

from __future__ import annotations

import msgspec
import pytest
from correct_store import AUTHOR, PLANS, RULES, SESSION, CorrectStore, step
from hypothesis import assume, given
from hypothesis import strategies as st

from soak.model.absence import suspect
from soak.model.absorb import absorb
from soak.model.book import SessionBook
from soak.model.case import (
    Basis,
    CannotDeriveError,
    Case,
    Derived,
    SecondLook,
    Study,
    copied,
    derive,
    found_of,
    replay,
)
from soak.model.intervals import Intervals
from soak.model.judge import judge
from soak.model.kinds import Kind
from soak.model.message import Garbled, Message
from soak.model.read import Read
from soak.model.saved import RAW_BYTES_MAX, SavedRead, restore, save
from soak.model.second_look import Look, look_again
from soak.model.text import Author

Plan = list[tuple[str, int]]

STRANGE: list[object] = [
    Garbled(b"\xc1\x00", "no message"),
    Garbled(b"", ""),
    AUTHOR.write("w1-2-chat", 0, 1),
    Author("r2", 7).write(SESSION, 0, 1),
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


def grow(plan: Plan, writers: int) -> CorrectStore:
    store = CorrectStore(writers)
    for what, writer in plan:
        if what == "read":
            read = store.read()
            absorb(store.book, judge(store.book, read, RULES, AUTHOR), read, remember_us=10**9)
        else:
            step(store, what, writer)
    return store


def kept(case: Case) -> Case:
    """Return a case as it comes back from the disk."""
    return msgspec.json.decode(msgspec.json.encode(case), type=Case)


def copy_of(book: SessionBook) -> SessionBook:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(book), type=SessionBook)


def case_of(store: CorrectStore, basis: Basis, book: SessionBook | None = None) -> Case:
    found = found_of(Kind.LOST, [(f"{SESSION}/0/1", (0, 1), "gone")])
    return Case(
        run=AUTHOR.run,
        seed=7,
        store="redis-list",
        session=SESSION,
        rules=RULES,
        book=book or store.book,
        basis=basis,
        found=found,
    )


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
    judgement = judge(store.book, read, RULES, AUTHOR)
    case = kept(case_of(store, Study(read=save(read, SESSION, AUTHOR))))
    assert derive(case) == [Derived.of(one.kind, one.message, one.detail) for one in judgement.findings]
    again = judge(case.book, restore(case.basis.read, SESSION, AUTHOR), case.rules, AUTHOR)
    assert again.absent == judgement.absent


@given(PLANS, st.integers(1, 3), st.data())
def test_a_second_look_that_was_kept_comes_to_the_same(plan: Plan, writers: int, data: st.DataObject) -> None:
    store = grow(plan, writers)
    first = store.read(data.draw(mangled(store.messages())))
    judgement = judge(store.book, first, RULES, AUTHOR)
    suspicion = suspect(store.book, judgement.absent, first, [], last_seen=1)
    assume(suspicion is not None)
    assert suspicion is not None
    suspicion.shown = save(first, SESSION, AUTHOR)
    absorb(store.book, judgement, first, remember_us=10**9)
    for what, writer in data.draw(PLANS):
        if what != "read":
            step(store, what, writer)
    second = store.read(data.draw(mangled(store.messages())))
    before = copy_of(store.book)
    look = Look(
        book=before,
        read=second,
        judgement=judge(store.book, second, RULES, AUTHOR),
        primary=None,
        run=AUTHOR.run,
        rules=RULES,
        faults=[],
        is_calm=True,
        final_us=data.draw(st.sampled_from([0, 10**9])),
        asks_primary=False,
    )
    basis = SecondLook(suspicion=copied(suspicion), read=save(second, SESSION, AUTHOR), final_us=look.final_us)
    looked = look_again(look, suspicion)
    broken = {(one.kind, one.place) for one in [*looked.lost, *looked.late]}
    derived = {(one.kind, one.message) for one in derive(kept(case_of(store, basis, before)))}
    assert derived == {(kind, f"{SESSION}/{place[0]}/{place[1]}") for kind, place in broken}


def lost_case() -> Case:
    """Message 2 of 3 is gone."""
    store = grow([("send", 0), ("OK", 0)] * 3, 1)
    items: list[object] = [message for message in store.messages() if message.seq != 2]
    first = store.read(items)
    judgement = judge(store.book, first, RULES, AUTHOR)
    suspicion = suspect(store.book, judgement.absent, first, [])
    assert suspicion is not None
    suspicion.shown = save(first, SESSION, AUTHOR)
    absorb(store.book, judgement, first, remember_us=10**9)
    basis = SecondLook(suspicion=suspicion, read=save(store.read(items), SESSION, AUTHOR), final_us=0)
    found = found_of(Kind.LOST, [(f"{SESSION}/0/2", (0, 2), Kind.LOST.sentence)])
    return msgspec.structs.replace(case_of(store, basis), found=found)


def test_a_loss_is_derived_again_and_deriving_changes_nothing() -> None:
    case = kept(lost_case())
    before = msgspec.json.encode(case)
    assert replay(case).is_same
    assert replay(case).is_same
    assert msgspec.json.encode(case) == before


def changed_read(case: Case, **fields: object) -> Case:
    assert isinstance(case.basis, SecondLook)
    read = msgspec.structs.replace(case.basis.read, **fields)
    return msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, read=read))


def test_a_loss_is_not_confirmed_by_a_read_that_came_too_soon() -> None:
    case = lost_case()
    assert isinstance(case.basis, SecondLook)
    hasty = msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, final_us=10**9))
    assert replay(hasty).missing == [f"{SESSION}/0/2"]


def test_a_loss_is_not_confirmed_without_the_word_of_a_primary_that_has_to_be_asked() -> None:
    case = lost_case()
    assert isinstance(case.basis, SecondLook)
    asking = msgspec.structs.replace(case, basis=msgspec.structs.replace(case.basis, asks_primary=True))
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
        msgspec.structs.replace(lost_case(), book=SessionBook(SESSION, "redis-list", length=5)),
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
    first = store.read(items)
    absorb(store.book, judge(store.book, first, RULES, AUTHOR), first, remember_us=10**9)
    read = save(store.read(), SESSION, AUTHOR)
    news = derive(case_of(store, Study(read=read)))
    assert [(one.kind, one.message) for one in news] == [(Kind.NON_MONOTONIC, f"{SESSION}/0/2")]
    assert derive(case_of(store, Study(read=read, told={0: Intervals([2, 2])}))) == []
