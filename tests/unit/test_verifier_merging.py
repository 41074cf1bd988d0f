"""What several verifiers say is added up so that the worst of it shows, and counts only grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from soak.checker.contract import Contract
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.clock import now_us
from soak.ledger.records import RunHeader
from soak.ledger.shards import Shard
from soak.metrics import Gauges
from soak.verifier import recovery
from soak.verifier.merging import last_sweeps, merged_clocks, merged_gauges, merged_tally
from soak.verifier.result import ClockStatus
from soak.verifier.sharing import Sharing
from soak.verifier.state import State
from soak.verifier.tally import Tally

SECOND = 1_000_000
STORE, OTHER = "redis-list", "redis-hash"


def gauges(**known: Any) -> Gauges:
    empty: dict[str, Any] = {
        "oldest_unverified_seconds": {},
        "last_sweep_timestamp_seconds": {},
        "sessions_live": {},
        "suspicions_open": {},
        "faults_active": 0,
        "ledger_lag_seconds": 0.0,
        "ledger_reachable": True,
        "state_bytes": 0,
        "loop_delay_seconds": 0.0,
    }
    return Gauges(**(empty | known))


def reading(at: float, live: int) -> Gauges:
    return gauges(last_sweep_timestamp_seconds={STORE: at}, sessions_live={STORE: live})


def test_the_last_sweep_is_that_of_the_verifier_which_reads_no_more() -> None:
    assert merged_gauges(reading(1_000.0, 5), [reading(400.0, 5)]).last_sweep_timestamp_seconds == {STORE: 400.0}
    assert last_sweeps([reading(1_000.0, 5), reading(400.0, 0)]) == {STORE: 1_000.0}, "it has nothing to read"
    assert last_sweeps([reading(300.0, 0), reading(400.0, 0)]) == {STORE: 400.0}
    assert last_sweeps([reading(1_000.0, 5), reading(0.0, 1)]) == {STORE: 0.0}, "it has read nothing yet"


def test_a_clock_is_as_uncertain_as_that_verifier_says_which_knows_it_worst() -> None:
    one, other = gauges(clocks={"a": (0.0, 0), "b": (0.01, 3)}), gauges(clocks={"a": (0.4, 1), "c": (0.1, 0)})
    for first, second in ((one, other), (other, one)):
        assert merged_gauges(first, [second]).clocks == {"a": (0.4, 1), "b": (0.01, 3), "c": (0.1, 0)}
    certain = ClockStatus(host="a", error_seconds=0.01, is_uncertain=False, jumps=2)
    unknown = ClockStatus(host="a", error_seconds=None, is_uncertain=True, jumps=0)
    worse = ClockStatus(host="a", error_seconds=0.02, is_uncertain=False, jumps=0)
    worst = ClockStatus(host="a", error_seconds=None, is_uncertain=True, jumps=2)
    assert merged_clocks([[certain], [unknown], []]) == merged_clocks([[unknown], [certain]]) == [worst]
    assert merged_clocks([[certain], [worse]])[0].error_seconds == 0.02


class Several:
    """Two verifiers of one run, of which the first adds up."""

    def __init__(self, tmp_path: Path, *stores: str) -> None:
        contracts = {store: Contract(crash_loss_seconds=2.0) for store in stores}
        header = RunHeader(
            version=1, run="r", seed=1, namespace="n", stores=list(stores), contracts=contracts,
            started_wall_seconds=0.0,
        )  # fmt: skip
        self.states = [State(header, dict.fromkeys(stores, ("redis",)), SECOND) for _ in range(2)]
        for number, state in enumerate(self.states, 1):
            state.sharing = Sharing("redis://127.0.0.1:1", "r", Shard(number, 2), tmp_path)

    def crash(self, number: int, *lost_seconds: float) -> None:
        """Let a crash take so much of the sessions of each, and settle it."""
        at = now_us()
        for state, seconds in zip(self.states, lost_seconds, strict=True):
            window = FaultWindow(
                fault=f"f{number}", kind="crash", target="redis", excuses=Excuse.CRASH, promotes=Promotion.NONE,
                started=at, injected=at, ended=at + 1,
            )  # fmt: skip
            window.swept = [*state.header.stores]
            state.faults.begin(window)
            state.recovery_times.began(window)
            state.recovery_times.ended(window)
            for store in state.header.stores:
                if seconds:
                    state.recoveries.of(window, store).note(int(seconds * 1e6), is_exact=True, is_tolerated=True)
                state.recovery_times.read(store, window.started + 1, window.started + SECOND, answered=True)
            state.recoveries.settle(window.started + 2)

    def whole(self) -> Tally:
        first, second = self.states
        return merged_tally(first.tally, [second.tally], first.faults)


def counted(tally: Tally) -> tuple[int, int, int]:
    """Return the recovery points, those beyond what is promised, and the recovery times that are counted."""
    points = tally.recovery_points.get("redis", {}).get("crash")
    times = tally.recovery_times.get("redis", {}).get("crash", {}).get("read")
    beyond = tally.recoveries_beyond.get("redis", {}).get("crash", 0)
    return sum(points.counts) if points else 0, beyond, sum(times.counts) if times else 0


def test_counts_of_faults_grow_also_when_their_accounts_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RECOVERIES_KEPT", 4)
    several = Several(tmp_path, STORE)
    for number in range(1, 11):
        several.crash(number, 0.5, 3.0)
        assert counted(several.whole()) == (number, number, number)
    assert len(several.states[0].tally.recoveries) <= 4
    assert counted(several.states[0].tally) == (10, 10, 10), "a checkpoint has them"
    assert counted(several.states[1].tally) == (10, 10, 10), "of its own share"


def test_a_fault_of_several_stores_is_one_recovery_point_and_its_worst_counts(tmp_path: Path) -> None:
    several = Several(tmp_path, STORE, OTHER)
    several.crash(1, 0.5, 1.9)
    whole = several.whole()
    assert counted(whole) == (1, 0, 2)
    assert whole.recovery_points["redis"]["crash"].sum == pytest.approx(1.9)
    window = several.states[1].faults.windows["f1"]
    several.states[1].recoveries.of(window, OTHER).note(9 * SECOND, is_exact=True, is_tolerated=False)
    assert counted(several.whole()) == (1, 1, 2), "a loss that was found late"
    assert counted(several.whole()) == (1, 1, 2)


def test_a_fault_is_counted_when_all_verifiers_have_settled_it(tmp_path: Path) -> None:
    several = Several(tmp_path, STORE)
    several.crash(1, 0.5, 0.5)
    second = next(iter(several.states[1].tally.recoveries.values()))
    second.is_settled = False
    assert counted(several.whole()) == (0, 0, 0)
    second.is_settled = True
    assert counted(several.whole()) == (1, 0, 1)
