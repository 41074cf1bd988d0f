"""What a cell of the recovery matrix says of a loss: inside the contract, or beyond it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.contract import Contract
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.intervals import Intervals
from soak.checker.message import Garbled
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Read
from soak.checker.text import MessageGenerator
from soak.errors import ExitCode
from soak.scenarios.recovery_matrix.judgement import (
    RecoveryCell,
    RecoveryMeasurement,
    RecoveryVerdict,
    exit_code_of,
    judge,
    worst_of,
)
from soak.scenarios.recovery_matrix.scenario import plan_cells
from soak.scenarios.scenario import ServerSetup

SECOND = 1_000_000
STARTED, DOWN = 100 * SECOND, int(100.2 * SECOND)
POWER_CUT = FaultWindow(
    fault="power_cut",
    kind="power_cut",
    target="redis",
    excuses=Excuse.POWER,
    promotes=Promotion.NONE,
    started=STARTED,
    ended=DOWN,
)
NOTHING = Contract()
TWO_SECONDS = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0)
ANYTHING = Contract(crash_loss_seconds=None, power_loss_seconds=None)


def attempt(seq: int, ended: float, outcome: Outcome = Outcome.OK, *, session: int = 0) -> Attempt:
    return Attempt(session, 0, seq, outcome, int((ended - 0.01) * SECOND), int(ended * SECOND))


TEN_SECONDS = [attempt(seq, 90.0 + seq) for seq in range(1, 11)]
"""Acknowledged one each second, the last one at the moment of the fault."""


AUTHOR = MessageGenerator("m1", 7)


def after(
    attempts: list[Attempt],
    contract: Contract,
    *,
    without: set[int] | set[tuple[int, int]],
    strange: int = 0,
    window: FaultWindow = POWER_CUT,
) -> RecoveryMeasurement:
    """Read twice what is left of some attempts, by seq or by session and seq, and judge it."""
    sessions: dict[str, list[Attempt]] = {}
    for one in attempts:
        sessions.setdefault(f"s{one.session}-short", []).append(one)
    return judge(
        sessions,
        [reads_at(seconds, sessions, without, strange) for seconds in (110, 120)],
        window,
        contract,
        AUTHOR,
        SECOND,
    )


def reads_at(
    seconds: int, sessions: dict[str, list[Attempt]], without: set[int] | set[tuple[int, int]], strange: int
) -> dict[str, Read]:
    reads = {}
    for session, attempts in sessions.items():
        there = [one for one in attempts if one.seq not in without and (one.session, one.seq) not in without]
        there.sort(key=lambda one: one.ended)
        items = [*(AUTHOR.write(session, 0, one.seq) for one in there if one.outcome != Outcome.FAILED)]
        odd = [Garbled(bytes([number]), "no message") for number in range(strange)]
        acked = Intervals.of(sorted(one.seq for one in attempts if one.outcome == Outcome.OK))
        at = seconds * SECOND
        reads[session] = Read(invoked=at, returned=at + 1, acked={0: acked}, items=[*items, *odd])
    return reads


def test_where_nothing_is_lost_every_contract_is_kept() -> None:
    found = after(TEN_SECONDS, NOTHING, without=set())
    assert (found.acknowledged, found.lost, found.recovery_point_seconds) == (10, 0, 0.0)
    assert found.is_inside
    assert found.promised == "nothing lost"


def test_a_tail_no_longer_than_promised_is_inside() -> None:
    found = after(TEN_SECONDS, TWO_SECONDS, without={8, 9, 10})
    assert (found.lost, found.beyond, found.holes) == (3, 0, 0)
    assert found.recovery_point_seconds == 2.0
    assert found.is_inside


def test_a_longer_tail_is_beyond_and_says_by_how_much() -> None:
    found = after(TEN_SECONDS, TWO_SECONDS, without={6, 7, 8, 9, 10})
    assert (found.lost, found.beyond, found.holes) == (5, 2, 0)
    assert found.recovery_point_seconds == 4.0
    assert found.complaints == ["2 lost up to 4.00 s before the fault, and promised is: at most 2s lost"]


def test_one_message_is_beyond_where_nothing_may_be_lost() -> None:
    assert after(TEN_SECONDS, NOTHING, without={10}).beyond == 1


def test_a_hole_is_no_loss_too_many_of_what_keeps_nothing() -> None:
    found = after(TEN_SECONDS, ANYTHING, without={9})
    assert (found.lost, found.holes, found.beyond) == (1, 1, 0)


@pytest.mark.parametrize("contract", [NOTHING, TWO_SECONDS])
def test_a_hole_is_beyond_every_contract_that_keeps_something(contract: Contract) -> None:
    found = after(TEN_SECONDS, contract, without={9})
    assert (found.lost, found.holes, found.beyond) == (1, 1, 1)
    assert found.complaints == [
        "1 lost out of the middle: something that was sent after their acknowledgement is there"
    ]


def test_two_that_were_under_way_together_make_no_hole() -> None:
    together = [attempt(1, 99.000), attempt(1, 99.005, session=1)]
    found = after(together, TWO_SECONDS, without={(0, 1)})
    assert (found.lost, found.holes) == (1, 0)
    assert found.is_inside


def test_all_is_inside_where_nothing_is_promised() -> None:
    found = after(TEN_SECONDS, ANYTHING, without=set(range(1, 11)))
    assert (found.lost, found.beyond) == (10, 0)
    assert found.recovery_point_seconds == 9.0
    assert found.is_inside


def test_an_unknown_that_surfaced_is_counted_and_accuses_nobody() -> None:
    attempts = [*TEN_SECONDS, attempt(11, 100.1, Outcome.UNKNOWN), attempt(12, 100.1, Outcome.UNKNOWN)]
    found = after(attempts, TWO_SECONDS, without={9, 10, 12})
    assert (found.unknown, found.surfaced, found.lost, found.holes) == (2, 1, 2, 0)
    assert found.is_inside


def test_an_unknown_or_failed_write_that_is_not_there_is_no_loss() -> None:
    attempts = [*TEN_SECONDS, attempt(11, 100.1, Outcome.UNKNOWN), attempt(12, 100.1, Outcome.FAILED)]
    found = after(attempts, NOTHING, without={11, 12})
    assert (found.acknowledged, found.unknown, found.lost) == (10, 1, 0)
    assert found.is_inside


def test_what_the_server_acknowledged_after_it_came_back_is_never_excused() -> None:
    found = after([*TEN_SECONDS, attempt(11, 101.0)], ANYTHING, without={11})
    assert found.beyond == 1


def test_what_was_written_after_it_came_back_makes_no_hole_in_what_was_before() -> None:
    found = after([*TEN_SECONDS, attempt(11, 101.0)], ANYTHING, without=set(range(1, 11)))
    assert (found.lost, found.holes) == (10, 0)
    assert found.is_inside


def test_what_is_not_as_written_is_beyond_every_contract() -> None:
    found = after(TEN_SECONDS, ANYTHING, without=set(), strange=3)
    assert found.complaints == ["3 items read back are not as they were written, or are there twice"]


def test_a_clean_stop_excuses_nothing_but_where_nothing_is_kept_at_all() -> None:
    window = msgspec.structs.replace(POWER_CUT, fault="restart", kind="restart", excuses=Excuse.CLEAN)
    assert after(TEN_SECONDS, TWO_SECONDS, without={10}, window=window).beyond == 1
    assert after(TEN_SECONDS, ANYTHING, without={10}, window=window).beyond == 0


@given(kept=st.integers(0, 10), promised=st.one_of(st.none(), st.floats(0, 20)))
def test_a_tail_is_inside_exactly_if_its_oldest_message_is_young_enough(kept: int, promised: float | None) -> None:
    contract = Contract(power_loss_seconds=promised)
    found = after(TEN_SECONDS, contract, without=set(range(kept + 1, 11)))
    assert found.holes == 0
    oldest_seconds = 10.0 - (kept + 1)
    assert found.is_inside == (kept == 10 or promised is None or (promised > 0 and oldest_seconds <= promised + 1e-6))


[CELL] = plan_cells(["none"], ["crash"], ServerSetup(), 1.0)


def result(contract: Contract, *, without: set[int], recovery_seconds: float = 0.5) -> RecoveryCell:
    measured = after(TEN_SECONDS, contract, without=without)
    return RecoveryCell(configuration="none", fault="crash", measured=measured, recovery_seconds=recovery_seconds)


def test_the_worst_of_several_tries_is_shown_with_the_longest_recovery() -> None:
    tries = [
        result(TWO_SECONDS, without=set(), recovery_seconds=3.0),
        result(TWO_SECONDS, without={9, 10}),
        result(TWO_SECONDS, without={10}),
    ]
    worst = worst_of(tries)
    assert worst.measured is not None
    assert (worst.measured.lost, worst.recovery_seconds, worst.repeats) == (2, 3.0, 3)


def test_one_try_beyond_outweighs_the_rest_and_one_not_made_outweighs_those_inside() -> None:
    inside, beyond, none = result(ANYTHING, without={9, 10}), result(NOTHING, without={10}), CELL.not_made("no disk")
    assert worst_of([inside, beyond, none]).verdict is RecoveryVerdict.BEYOND
    assert worst_of([inside, none, inside]).verdict is RecoveryVerdict.NOT_MADE


def test_the_exit_code_tells_the_worst() -> None:
    inside, beyond, none = result(TWO_SECONDS, without={10}), result(NOTHING, without={10}), CELL.not_made("no shim")
    unreachable = CELL.not_made("no server", is_unreachable=True)
    assert exit_code_of([inside, inside]) is ExitCode.PASS
    assert exit_code_of([inside, none, beyond]) is ExitCode.VIOLATION
    assert exit_code_of([inside, none]) is ExitCode.INCONCLUSIVE
    assert exit_code_of([inside, unreachable]) is ExitCode.INCONCLUSIVE
    assert exit_code_of([unreachable, unreachable]) is ExitCode.UNREACHABLE
    assert exit_code_of([]) is ExitCode.INCONCLUSIVE
