"""A history that is exported says no more than what happened: a checker finds nothing where nothing is wrong."""

from __future__ import annotations

import msgspec
import pytest
from correct_store import AUTHOR, PLANS, RULES, SESSION, CorrectStore, step
from hypothesis import given
from hypothesis import strategies as st
from list_append import anomalies, operations, read_edn

from soak.model.absence import Suspicion
from soak.model.absorb import absorb
from soak.model.attempt import Attempt
from soak.model.book import SessionBook
from soak.model.case import Basis, Case, Search, SecondLook, SecondSearch, Study, found_of
from soak.model.contract import Contract
from soak.model.judge import judge
from soak.model.kinds import Kind
from soak.model.outcome import Outcome
from soak.model.saved import SavedRead, save
from soak.model.search import Missed
from soak.report.edn import jepsen_lines, quoted
from soak.report.history import NotExpressibleError, SessionHistory, check_expressible, of_cases, of_recording
from soak.report.timeline import timeline
from soak.verifier.recording import Recording

Plan = list[tuple[str, int]]


def checked(*histories: SessionHistory) -> set[str]:
    return anomalies(operations(read_edn("\n".join(jepsen_lines(histories)))))


def case_of(book: SessionBook, basis: Basis) -> Case:
    found = found_of(Kind.LOST, [(f"{SESSION}/0/1", (0, 1), "gone")])
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(book), type=SessionBook)
    return Case(run="r1", seed=7, store="redis-list", session=SESSION, rules=RULES, book=copy, basis=basis, found=found)


TALK: Plan = [("send", 0), ("OK", 0), ("send", 1), ("OK", 1), ("read", 0)]


@given(st.one_of(PLANS, st.integers(1, 6).map(TALK.__mul__)), st.integers(1, 4), st.integers(0, 20_000), st.data())
def test_the_evidence_of_any_moment_of_a_correct_store_accuses_nobody(
    plan: Plan, writers: int, remember_us: int, data: st.DataObject
) -> None:
    """Whatever times are forgotten by then, and of whichever moments there is evidence."""
    store = CorrectStore(writers)
    cases: list[Case] = []
    for what, writer in [*plan, ("read", 0)]:
        if what != "read":
            step(store, what, writer)
            continue
        before, order = store.read(), store.book.order
        read = store.read()
        shown = save(before, SESSION, AUTHOR)
        suspicion = Suspicion(
            invoked=before.invoked, returned=before.returned, items=0, absent={}, seen={}, shown=shown, before=order
        )
        kept = save(read, SESSION, AUTHOR)
        cases.append(case_of(store.book, Study(read=kept)))
        cases.append(case_of(store.book, SecondLook(suspicion=suspicion, read=kept)))
        absorb(store.book, judge(store.book, read, RULES, AUTHOR), read, remember_us=remember_us)
    for case in cases:
        assert checked(of_cases(SESSION, [case])) == set()
    some = [case for case in cases if data.draw(st.booleans())]
    if some:
        assert checked(of_cases(SESSION, some)) == set()


def recorded(plan: Plan, writers: int) -> Recording:
    store = CorrectStore(writers)
    recording = Recording(run="r1", store="s", session=SESSION, contract=Contract(), clock_epsilon_us=0)
    recording.leased = dict.fromkeys(range(writers), 1_000)
    for what, writer in [*plan, ("read", 0)]:
        if what == "read":
            read = save(store.read(), SESSION, AUTHOR)
            recording.reads[read.invoked] = read
            continue
        flight = store.flights.get(writer % writers)
        step(store, what, writer)
        if flight is not None and store.flights.get(flight.writer) is not flight:
            attempt = Attempt(1, flight.writer, flight.seq, int(Outcome[what]), flight.sent, store.now)
            recording.attempts[flight.writer, flight.seq] = attempt
    return recording


@given(PLANS, st.integers(1, 4), st.sampled_from([0, 500, 5_000]))
def test_the_recording_of_a_correct_store_accuses_nobody(plan: Plan, writers: int, epsilon_us: int) -> None:
    recording = recorded(plan, writers)
    recording.clock_epsilon_us = epsilon_us
    assert checked(of_recording(recording)) == set()


def three(**changes: object) -> Recording:
    """Return three acknowledged messages of one writer, and two reads of them."""
    recording = Recording(run="r1", store="s", session=SESSION, contract=Contract(), clock_epsilon_us=0)
    recording.leased = {0: 32}
    for seq in (1, 2, 3):
        recording.attempts[0, seq] = Attempt(1, 0, seq, int(Outcome.OK), seq * 10, seq * 10 + 5)
    for invoked in (100, 200):
        recording.reads[invoked] = SavedRead(invoked=invoked, returned=invoked + 5, count=3, items=[(0, 1, 3)])
    return msgspec.structs.replace(recording, **changes)


def read_of(*items: tuple[int, int, int]) -> dict[int, SavedRead]:
    whole = SavedRead(invoked=100, returned=105, count=3, items=[(0, 1, 3)])
    return {100: whole, 200: SavedRead(invoked=200, returned=205, count=3, items=list(items))}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"reads": read_of((0, 1, 1), (0, 3, 3))}, {"missing", "incompatible"}),
        ({"reads": read_of((0, 2, 2), (0, 1, 1), (0, 3, 3))}, {"order", "incompatible"}),
        ({"reads": read_of((0, 1, 3), (0, 3, 3))}, {"duplicate"}),
        ({"reads": read_of((0, 1, 3), (9, 1, 1))}, {"garbage"}),
        ({"reads": read_of((0, 1, 4))}, set()),  # of no known outcome, but intended
    ],
)
def test_what_is_wrong_with_a_recording_is_there_for_another_checker_to_find(
    changes: dict[str, object], expected: set[str]
) -> None:
    found = checked(of_recording(three(**changes)))
    assert found >= expected
    assert bool(found) == bool(expected)


def test_appends_that_follow_each_other_within_a_microsecond_stay_one_after_the_other() -> None:
    recording = three()
    for seq in (1, 2, 3):
        recording.attempts[0, seq] = Attempt(1, 0, seq, int(Outcome.OK), 9 + seq, 10 + seq)
    assert checked(of_recording(recording)) == set()


def test_of_two_events_in_one_microsecond_neither_is_said_to_have_come_first() -> None:
    recording = three(reads={})
    # Both were acknowledged in the microsecond in which the other writer's next one was sent.
    recording.attempts = {
        (0, 1): Attempt(1, 0, 1, int(Outcome.OK), 10, 20),
        (0, 2): Attempt(1, 0, 2, int(Outcome.OK), 20, 30),
        (1, 1): Attempt(1, 1, 1, int(Outcome.OK), 10, 20),
    }
    recording.reads[40] = SavedRead(invoked=40, returned=41, count=3, items=[(0, 1, 2), (1, 1, 1)])
    assert checked(of_recording(recording)) == set()


@pytest.mark.parametrize(
    "contract", [Contract(ttl_seconds=5.0), Contract(retained_messages=9), Contract(eviction_allowed=True)]
)
def test_sessions_whose_messages_may_rightly_vanish_have_no_such_history(contract: Contract) -> None:
    with pytest.raises(NotExpressibleError):
        check_expressible(SESSION, contract, is_forgotten=False)


def test_a_loss_that_the_contract_tolerates_is_an_append_of_unknown_outcome() -> None:
    short = SavedRead(invoked=100, returned=105, count=2, items=[(0, 1, 2)])
    assert checked(of_recording(three(reads={100: short}))) == {"missing"}
    assert checked(of_recording(three(reads={100: short}, tolerated={(0, 3)}))) == set()
    with pytest.raises(NotExpressibleError):
        of_recording(three(tolerated={(0, 3)}))


@given(st.text())
def test_any_name_is_written_so_that_it_is_read_back(text: str) -> None:
    (read,) = read_edn(quoted(text))
    assert read == text.encode("utf-8", "backslashreplace").decode()


def test_a_search_is_no_read_of_the_whole_session_and_the_story_tells_each() -> None:
    store = CorrectStore(1)
    for what, writer in [*TALK[:2], *TALK[:2]]:
        step(store, what, writer)
    first = store.read()
    absorb(store.book, judge(store.book, first, RULES, AUTHOR), first, remember_us=10**9)
    lacking = save(store.read([AUTHOR.write(SESSION, 0, 1)]), SESSION, AUTHOR)
    missed = Missed(place=(0, 2), invoked=lacking.invoked, returned=lacking.returned, limit=9, answer=lacking)
    again, whole = save(store.read([]), SESSION, AUTHOR), save(store.read(), SESSION, AUTHOR)
    searches = [
        case_of(store.book, Search(read=lacking, asked=(0, 2), limit=9)),
        case_of(store.book, SecondSearch(missed=missed, search=again, limit=9, read=whole)),
    ]
    history = of_cases(SESSION, searches)
    assert [read.elements for read in history.reads] == [("0/1", "0/2")] * 2, "what had been verified, and the read"
    assert checked(history) == set()
    assert "the words of 0/2 were searched for: 1 item" in timeline(searches[0], (0, 2))[-1].what
    told = [moment.what for moment in timeline(searches[1], (0, 2))][-3:]
    assert told == [
        "searched for by its own words: 1 item, it is not there",
        "searched for again: 0 items, it is not there",
        "read whole: 2 items, it is there",
    ]
