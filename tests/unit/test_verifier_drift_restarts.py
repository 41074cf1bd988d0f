"""What is told of a server that restarted by itself."""

from __future__ import annotations

import pytest

from soak.checker.contract import Contract
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.clock import continue_timeline, now_us
from soak.ledger.records import RunHeader
from soak.verifier import drift
from soak.verifier.state import State


@pytest.mark.parametrize("ahead_us", [0, 86_400_000_000])
def test_a_restart_is_dated_also_by_a_verifier_that_goes_on_in_the_timeline_of_another_boot(
    ahead_us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = RunHeader(
        version=1, run="r", seed=1, namespace="n", stores=["redis-list"], contracts={"redis-list": Contract()},
        started_wall_seconds=0.0,
    )  # fmt: skip
    state = State(header, {"redis-list": ("redis",)}, 1_000_000)
    monkeypatch.setattr("soak.clock._Continued.name", "")
    monkeypatch.setattr("soak.clock._Continued.ahead_us", 0)
    continue_timeline("earlier", ahead_us)
    window = FaultWindow(
        fault="f", kind="crash", target="redis", excuses=Excuse.CRASH, promotes=Promotion.NONE, planned=False,
        started=now_us() - 1, ended=now_us(),
    )  # fmt: skip
    monkeypatch.setattr("time.time", lambda: 86_400.0)
    drift.note_end(state, window)
    (event,) = state.tally.events
    assert 0.0 < event.at_wall_seconds <= 86_400.0
