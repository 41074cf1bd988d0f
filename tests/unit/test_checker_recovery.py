"""What a fault took of a store: which fault is blamed, how old the oldest loss was, and whether that is inside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.contract import Contract
from soak.checker.faults import (
    Excuse,
    FaultWindow,
    Promotion,
    age_at,
    allowed_loss_seconds,
    begin_recovery,
    blamed_window,
    is_excused,
)
from soak.checker.outcome import Attempt, Outcome
from soak.clock import now_us
from soak.faults.catalogue import ALL as FAULTS
from soak.ledger.records import RunHeader
from soak.verifier.account import recoveries_of
from soak.verifier.drift import note_end
from soak.verifier.merging import merged_recovery, merged_tally
from soak.verifier.state import State
from tests.support.run_headers import header_of

SECOND = 1_000_000
START, END = 100 * SECOND, 101 * SECOND
LENIENT = Contract(crash_loss_seconds=2.0, power_loss_seconds=5.0)


def window(kind: str = "crash", started: int = START, ended: int | None = END, *, planned: bool = True) -> FaultWindow:
    return FaultWindow(
        fault=f"{kind}-{started}",
        kind=kind,
        target="redis",
        excuses=FAULTS[kind].excuses if planned else Excuse.CRASH,
        promotes=FAULTS[kind].promotes if planned else Promotion.NONE,
        started=started,
        ended=ended,
        planned=planned,
    )


def acknowledged(ended: int, outcome: Outcome = Outcome.OK) -> Attempt:
    return Attempt(session=1, writer=0, seq=1, outcome=int(outcome), sent=ended - 1, ended=ended)


def test_the_recovery_point_is_the_age_of_the_oldest_loss() -> None:
    recovery = begin_recovery(window(), "redis-list", LENIENT, 0.0)
    assert (recovery.point_seconds, recovery.promised_seconds, recovery.is_kept) == (0.0, 2.0, True)
    for ended in (START - SECOND, START - SECOND // 2, START + SECOND // 2):
        age = age_at(window(), acknowledged(ended))
        recovery.note(age, is_exact=True, is_tolerated=True)
    assert (recovery.point_seconds, recovery.tolerated, recovery.is_kept) == (1.0, 3, True)


def test_what_was_lost_is_told_by_who_had_acknowledged_it_and_when() -> None:
    recovery = begin_recovery(window(), "redis-list", LENIENT, 0.0)
    for ended in (START - SECOND, START + SECOND // 2):
        recovery.note(age_at(window(), acknowledged(ended)), is_exact=True, is_tolerated=True)
    unknown = acknowledged(START, Outcome.UNKNOWN)
    recovery.note(age_at(window(), unknown), is_exact=True, is_tolerated=False, is_acknowledged=False)
    assert (recovery.span_seconds, recovery.lost_during, recovery.unacknowledged) == (1.5, 1, 1)
    both = merged_recovery(recovery, begin_recovery(window(), "redis-list", LENIENT, 0.0))
    assert (both.span_seconds, both.lost_during, both.unacknowledged) == (1.5, 1, 1)


def test_more_than_is_promised_is_shown_as_such() -> None:
    recovery = begin_recovery(window(), "redis-list", LENIENT, 0.0)
    recovery.note(3 * SECOND, is_exact=True, is_tolerated=False)
    assert (recovery.point_seconds, recovery.lost, recovery.is_kept) == (3.0, 1, False)
    hole = begin_recovery(window(), "redis-list", LENIENT, 0.0)
    hole.note(SECOND, is_exact=True, is_tolerated=False)
    assert not hole.is_kept, "a hole breaks the promise however young it is"


def test_a_promise_of_nothing_is_always_kept() -> None:
    recovery = begin_recovery(window(), "redis-list", Contract(crash_loss_seconds=None), 0.0)
    recovery.note(10**12, is_exact=True, is_tolerated=True)
    assert recovery.is_kept


def test_what_is_older_than_anyone_remembers_makes_the_point_a_lower_bound() -> None:
    recovery = begin_recovery(window(), "redis-list", LENIENT, 0.0)
    recovery.note(age_at(window(), acknowledged(START - 7 * SECOND)), is_exact=False, is_tolerated=False)
    assert (recovery.point_seconds, recovery.is_at_least) == (7.0, True)
    assert age_at(window(), None) == 0


def test_an_unknown_append_makes_no_recovery_point() -> None:
    assert age_at(window(), acknowledged(START - 9 * SECOND, Outcome.UNKNOWN)) == 0


def test_the_first_fault_that_may_have_taken_it_is_blamed() -> None:
    first, second = window(), window(started=200 * SECOND, ended=201 * SECOND)
    windows = [second, first]
    early, between = acknowledged(START - SECOND), acknowledged(150 * SECOND)
    late = 300 * SECOND
    assert blamed_window(early, windows, last_seen=0, missed=late) is first
    assert blamed_window(between, windows, last_seen=0, missed=late) is second
    assert blamed_window(early, windows, last_seen=150 * SECOND, missed=late) is second, "a read showed it in between"
    assert blamed_window(early, windows, last_seen=0, missed=50 * SECOND) is None, "it was missed before"
    assert blamed_window(None, windows, last_seen=0, missed=late) is first
    assert blamed_window(acknowledged(250 * SECOND), windows, last_seen=0, missed=late) is None


@pytest.mark.parametrize("kind", ["pause", "connection_refused", "dropped_reply", "replica_lag", "eviction"])
def test_a_fault_that_takes_nothing_is_never_blamed(kind: str) -> None:
    assert blamed_window(acknowledged(START - 1), [window(kind)], last_seen=0, missed=END) is None


def test_a_fault_that_is_not_over_is_not_measured() -> None:
    assert blamed_window(acknowledged(START - 1), [window(ended=None)], last_seen=0, missed=END) is None


# What each kind of fault excuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "planned", "contract", "allowed"),
    [
        ("crash", True, LENIENT, 2.0),
        ("power_cut", True, LENIENT, 5.0),
        ("restart", False, LENIENT, 2.0),
        ("restart", True, LENIENT, 0.0),
        ("restart", True, Contract(crash_loss_seconds=None), None),
        ("wiped_volume", True, LENIENT, 0.0),
        ("wiped_volume", True, Contract(power_loss_seconds=None), 0.0),
        ("wiped_volume", True, Contract(crash_loss_seconds=None), None),
        ("pause", True, Contract(crash_loss_seconds=None, power_loss_seconds=None), 0.0),
    ],
)
def test_each_fault_excuses_what_its_clause_allows(
    kind: str, planned: bool, contract: Contract, allowed: float | None
) -> None:
    assert allowed_loss_seconds(window(kind, planned=planned), contract) == allowed


def test_a_clean_restart_excuses_no_tail_and_an_unplanned_one_does() -> None:
    attempt = acknowledged(START - SECOND)
    assert not is_excused(attempt.ended, window("restart"), LENIENT)
    assert is_excused(attempt.ended, window("restart", planned=False), LENIENT)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.booleans()), max_size=20))
def test_the_account_adds_up_and_is_kept_only_inside_the_promise(losses: list[tuple[int, bool]]) -> None:
    recovery = begin_recovery(window(), "redis-list", LENIENT, 0.0)
    for age, is_tolerated in losses:
        recovery.note(age, is_exact=True, is_tolerated=is_tolerated)
    assert recovery.tolerated + recovery.lost == len(losses)
    assert recovery.point_seconds == max((age / 1e6 for age, _ in losses), default=0.0)
    assert recovery.is_kept == (recovery.lost == 0 and recovery.point_seconds <= 2.0)


@pytest.mark.parametrize(("swept", "shown"), [(["redis-list"], ("0s", "0")), ([], ("not known", "not known"))])
def test_a_run_that_could_not_read_what_it_lost_does_not_say_that_it_lost_nothing(
    swept: list[str], shown: tuple[str, str]
) -> None:
    header = header_of({"redis-list": LENIENT}, "r")
    state = State(header, {"redis-list": ("redis",)}, SECOND)
    ended = window()
    ended.swept = swept
    state.faults.begin(ended)
    state.recovery_times.began(ended)
    state.recoveries.settle(END + SECOND, is_final=True)
    (measured,) = recoveries_of(state)
    assert (measured.shown_point, measured.shown_lost) == shown
    assert bool(state.tally.recovery_points) == bool(swept)


def test_after_more_faults_than_are_kept_none_is_said_to_await_an_answer_that_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("soak.verifier.recovery.RECOVERIES_KEPT", 2)
    header = header_of({"redis-list": LENIENT}, "r")
    state, now = State(header, {"redis-list": ("redis",)}, SECOND), now_us()
    for number in range(4):
        over = window(started=now - SECOND - number, ended=now)
        over.swept = ["redis-list"]
        state.faults.begin(over)
        state.recovery_times.began(over)
        state.recovery_times.ended(over)
        recovery = state.recoveries.of(over, "redis-list")
        recovery.read_seconds = recovery.write_seconds = 1.0
    state.recoveries.settle(now + SECOND, is_final=True)
    assert len(recoveries_of(state)) == 2
    assert state.recovery_times.unfinished(now + SECOND) == []
    # A loss that is found late opens the account of the first anew, and asks for nothing.
    state.recoveries.of(state.faults.values()[0], "redis-list")
    state.recovery_times._followed = None  # as with the next fault
    assert state.recovery_times.unfinished(now + SECOND) == []


def test_a_replaced_primary_is_counted_once_however_many_verifiers_are_told() -> None:
    header = header_of({"redis-list": LENIENT}, "r")
    states = [State(header, {"redis-list": ("redis",)}, SECOND) for _ in range(2)]
    after = {
        "replaced": "redis-1, redis-2",
        "replaced_after_seconds": "1.1",
        "stayed_clients": "3",
        "stayed_seconds": "9.6",
    }
    for state in states:
        replaced = window("sentinel_failover")
        replaced.telemetry_after = after
        state.faults.begin(replaced)
        state.recovery_times.ended(replaced)
    whole = merged_tally(states[0].tally, [states[1].tally], states[0].faults)
    assert whole.replacements == {"redis": {"sentinel_failover": 2}}
    assert whole.stayed_clients == {"redis": {"sentinel_failover": 3}}
    assert (whole.replacement_seconds_max, whole.stayed_seconds_max) == ({"redis": 1.1}, {"redis": 9.6})


def test_a_failover_by_itself_that_daemon_and_verifier_both_notice_is_told_once() -> None:
    header = RunHeader(
        version=1, run="r", seed=1, namespace="n", stores=["redis-list"], contracts={"redis-list": LENIENT},
        started_wall_seconds=0.0,
    )  # fmt: skip
    state = State(header, {"redis-list": ("redis",)}, SECOND)
    long_after = window("failover", END + SECOND, END + 2 * SECOND, planned=False)
    for noticed in (
        window("failover", START, END, planned=False),
        window("failover", START + 1, END - 1, planned=False),
        window("crash", START, END, planned=False),
        long_after,
    ):
        state.faults.begin(noticed)
        note_end(state, noticed)
    assert state.tally.recoveries_tried == {"failover": 2, "crash": 1}
    assert state.tally.unexpected_restarts == {"redis": 3}
