"""A history that is exported says no more than what happened: a checker finds nothing where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.absorb import absorb
from soak.checker.case import Basis, Case, FullRead, SearchRead, SecondSearch, TailRead, found_of
from soak.checker.contract import Contract, Duplicates, Order, Reads, ReplicaReads
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.incidents import Missed, Suspicion
from soak.checker.judge import judge
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Read, SavedItem, SavedRead, save
from soak.checker.text import MessageGenerator
from soak.commands.export import ChosenHistories, choose_histories
from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, Open
from soak.report.edn import jepsen_lines, quoted
from soak.report.history import (
    BEGINNING,
    NotExpressibleError,
    SessionHistory,
    check_expressible,
    of_cases,
    of_recording,
)
from soak.report.timeline import timeline
from soak.verifier import evidence_file
from soak.verifier.evidence import FILES_NAME
from soak.verifier.recording import FOLDER_NAME, Recorder, Recording, read_recording
from soak.verifier.tracked_session import TrackedSession
from tests.support.checker.correct_store import AUTHOR, PLANS, RULES, SESSION, CorrectStore, step
from tests.support.list_append import anomalies, operations, read_edn
from tests.support.run_headers import header_of

Plan = list[tuple[str, int]]


def checked(*histories: SessionHistory) -> set[str]:
    return anomalies(operations(read_edn("\n".join(jepsen_lines(histories)))))


def case_of(book: ExpectedSession, basis: Basis) -> Case:
    found = found_of(Kind.LOST, [(f"{SESSION}/0/1", (0, 1), "gone")])
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(book), type=ExpectedSession)
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
        cases.append(case_of(store.book, FullRead(read=kept)))
        cases.append(msgspec.structs.replace(cases[-1], suspicion=suspicion))
        absorb(store.book, judge(store.book, read, RULES, AUTHOR), read, RULES, remember_us=remember_us)
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


@pytest.mark.parametrize(
    ("contract", "reason"),
    [
        (Contract(order=Order.NONE), "order none"),
        (Contract(order=Order.PER_WRITER), "order per_writer"),
        (Contract(duplicates=Duplicates.AT_LEAST_ONCE), "at_least_once"),
        (Contract(reads=Reads.EVENTUAL), "eventual"),
    ],
)
def test_sessions_that_are_promised_less_than_a_list_are_left_out_with_the_reason(
    contract: Contract, reason: str
) -> None:
    with pytest.raises(NotExpressibleError, match=reason) as why:
        of_recording(three(contract=contract))
    assert SESSION in str(why.value)


def behind(staleness_seconds: float) -> Contract:
    return Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=staleness_seconds)


def test_a_read_that_may_be_behind_begins_earlier_by_the_bound() -> None:
    late = SavedRead(invoked=100, returned=105, count=2, items=[(0, 1, 2)])
    allowed = of_recording(three(reads={100: late}, contract=behind(70e-6)))
    assert checked(allowed) == set()
    assert checked(of_recording(three(reads={100: late}, contract=behind(60e-6)))) == {"missing"}
    case = case_of(CorrectStore(1).book, FullRead(read=late))
    weaker = msgspec.structs.replace(case, rules=msgspec.structs.replace(RULES, contract=behind(70e-6)))
    assert [read.invoked for read in of_cases(SESSION, [weaker]).reads] == [30]


FAILOVER = FaultWindow(
    fault="f1",
    kind="failover",
    target="redis",
    excuses=Excuse.FAILOVER,
    promotes=Promotion.BESIDE_THE_OLD,
    planned=False,
    started=90,
    ended=110,
)


def test_a_read_in_the_shadow_of_a_fault_may_be_of_any_time_before(tmp_path: Path) -> None:
    """R12: a primary that is being replaced may be behind, and it may become known only later that it was."""
    late = Read(invoked=100, returned=105, acked={}, items=[AUTHOR.write(SESSION, 0, 1)])
    missing, attempts = three(reads={100: save(late, SESSION, AUTHOR)}), three().attempts.values()
    assert checked(of_recording(missing)) == {"missing"}
    for number, (is_shadowed, replica_reads, expected) in enumerate(
        [
            (True, ReplicaReads.TOLERANT, set()),
            (False, ReplicaReads.TOLERANT, set()),  # the fault was noticed after it
            (False, ReplicaReads.STRICT, {"missing"}),
        ]
    ):
        contract = Contract(replica_reads=replica_reads)
        header = header_of({"redis-list": contract}, seed=7, namespace="soak_r1")
        recorder = Recorder(tmp_path / str(number), header, AUTHOR, 1)
        watched = TrackedSession(ExpectedSession(SESSION, "redis-list"), "w1", 1)
        batch = Batch(opens=[Open(1, SESSION, "redis-list")], attempts=list(attempts))
        recorder.take(WorkerBatch("0-1", "w1", "host", 0, 1, batch), {1: watched})
        recorder.note_read(watched, late, is_shadowed=is_shadowed)
        if not is_shadowed:
            recorder.note_fault(FAILOVER, {"another"})
            recorder.flush()
            assert checked(of_recording(recorded_in(tmp_path / str(number)))) == {"missing"}
            recorder.note_fault(FAILOVER, {"redis-list"})
        later = Read(invoked=200, returned=205, acked={}, items=[AUTHOR.write(SESSION, 0, seq) for seq in (1, 2, 3)])
        recorder.note_read(watched, later, is_shadowed=False)
        recorder.flush()
        history = of_recording(recorded_in(tmp_path / str(number)))
        assert checked(history) == expected
        assert [read.invoked for read in history.reads] == [100 if expected else BEGINNING, 200]

        case = case_of(CorrectStore(1).book, FullRead(read=save(late, SESSION, AUTHOR)))
        rules = msgspec.structs.replace(RULES, contract=contract)
        case = msgspec.structs.replace(case, rules=rules, faults=[FAILOVER], targets={"redis-list": ["redis"]})
        assert [read.invoked for read in of_cases(SESSION, [case]).reads] == [100 if expected else BEGINNING]


def recorded_in(folder: Path) -> Recording:
    (path,) = (folder / FOLDER_NAME).glob("*.jsonl")
    recording = read_recording(path)
    assert recording is not None
    return recording


def test_what_nobody_of_the_session_appended_is_a_dirty_read_to_another_checker() -> None:
    leaked = SavedItem(message=AUTHOR.write("another", 0, 1).to_bytes())
    of_another_run = SavedItem(message=MessageGenerator("r0", 7).write(SESSION, 0, 1).to_bytes())
    for item in (leaked, of_another_run, SavedItem(raw=b"no message", reason="no message")):
        read = SavedRead(invoked=100, returned=105, count=4, items=[(0, 1, 3), item])
        history = of_recording(three(reads={100: read}))
        assert checked(history) == {"garbage"}
        (foreign,) = [append for append in history.appends if append.foreign]
        assert (foreign.outcome, foreign.element) == (Outcome.FAILED, history.reads[0].elements[-1])
        case = case_of(ExpectedSession(SESSION, "redis-list"), FullRead(read=read))
        assert {append.element for append in of_cases(SESSION, [case]).appends} >= {foreign.element}


def test_two_things_that_begin_alike_have_different_names() -> None:
    items = [SavedItem(raw=b"the same beginning, " + end, reason="no message") for end in (b"one", b"two")]
    read = SavedRead(invoked=100, returned=105, count=5, items=[(0, 1, 3), *items])
    assert len(set(of_recording(three(reads={100: read})).reads[0].elements)) == 5
    assert checked(of_recording(three(reads={100: read}))) == {"garbage"}


def written(folder: Path, *cases: Case, recording: Recording | None = None) -> None:
    """Write cases as evidence, and a recording, the way the verifier does."""
    verifier = folder / "verifier"
    (verifier / FILES_NAME).mkdir(parents=True)
    for number, case in enumerate(cases):
        path = verifier / FILES_NAME / f"{case.found.kind.value}.{number}.json"
        path.write_bytes(evidence_file.encode({"kind": case.found.kind.value}, case))
    if recording is not None:
        (verifier / FOLDER_NAME).mkdir()
        head = {name: getattr(recording, name) for name in ("run", "store", "session", "contract", "clock_epsilon_us")}
        lines = [head, *({"attempt": attempt} for attempt in recording.attempts.values())]
        lines += [{"lease": lease} for lease in recording.leased.items()]
        lines += [{"read": read} for read in recording.reads.values()]
        lines += [{"tolerated": place} for place in recording.tolerated]
        (verifier / FOLDER_NAME / "w1-1.jsonl").write_bytes(
            b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        )


def choose_all(folder: Path) -> ChosenHistories:
    return choose_histories(folder, run=None, sessions=None, stores=None)


def test_what_is_named_as_left_out_is_not_in_the_file(tmp_path: Path) -> None:
    whole = SavedRead(invoked=100, returned=105, count=3, items=[(0, 1, 3)])
    case = case_of(CorrectStore(1).book, FullRead(read=whole))
    recording = three(tolerated={(0, 3)}, store="redis-list")
    written(tmp_path, case, recording=recording)
    chosen = choose_all(tmp_path)
    assert chosen.histories == []
    assert [SESSION in line for line in chosen.left_out] == [True]


@pytest.mark.parametrize("kind", [Kind.WINDOW, Kind.CORRUPTED, Kind.UNFINDABLE])
def test_what_such_a_history_has_no_word_for_is_named(tmp_path: Path, kind: Kind) -> None:
    whole = SavedRead(invoked=100, returned=105, count=0, items=[])
    case = case_of(CorrectStore(1).book, FullRead(read=whole))
    odd = msgspec.structs.replace(case, found=found_of(kind, [(f"{SESSION}/0/1", (0, 1), "odd")]))
    few = case_of(CorrectStore(1).book, TailRead(read=whole, last=5))
    written(tmp_path, case, odd, few)
    chosen = choose_all(tmp_path)
    assert len(chosen.histories) == 1
    assert chosen.not_told == [f"{SESSION}: {', '.join(sorted({kind.value, Kind.LOST.value}))}"]


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
    absorb(store.book, judge(store.book, first, RULES, AUTHOR), first, RULES, remember_us=10**9)
    lacking = save(store.read([AUTHOR.write(SESSION, 0, 1)]), SESSION, AUTHOR)
    missed = Missed(place=(0, 2), invoked=lacking.invoked, returned=lacking.returned, limit=9, answer=lacking)
    again, whole = save(store.read([]), SESSION, AUTHOR), save(store.read(), SESSION, AUTHOR)
    searches = [
        case_of(store.book, SearchRead(read=lacking, asked=(0, 2), limit=9)),
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
