"""The longest that an acknowledged message had to wait to be verified, and what does not count against it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import msgspec
import pytest

from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.outcome import Attempt, Outcome
from soak.checker.telemetry import ServerSample
from soak.ledger.records import RunHeader
from soak.verifier import checkpoint
from soak.verifier.account import longest_unverified_seconds
from soak.verifier.progress import UnverifiedAge, note_downtime
from soak.verifier.state import State, Worker
from soak.verifier.tracked_session import TrackedSession

SECOND = 1_000_000
STORE = "redis-list"
BEGAN = 1_000 * SECOND


class Waiting:
    """A message that was acknowledged at `BEGAN` and waits; seconds are counted from there."""

    def __init__(self) -> None:
        self.state = new_state()
        self.reachable = True
        self.downtime_known = True
        self.ages = UnverifiedAge(self.state, lambda: self.reachable, lambda: self.downtime_known)
        self.book = ExpectedSession("s", STORE)
        self.state.workers["w"] = Worker("host")
        self.state.workers["w"].sessions[1] = TrackedSession(self.book, "w", 1)
        self.book.lease(0, 1)
        self.book.acknowledge(attempt())
        self.now = 0.0

    def until(self, seconds: float) -> None:
        while self.now < seconds:
            self.now += 0.5
            self.ages.tick(at(self.now))

    def verify(self) -> None:
        self.book.pending.clear()

    @property
    def longest(self) -> float:
        return longest_unverified_seconds(self.state)


def new_state() -> State:
    contracts = {STORE: Contract()}
    header = RunHeader(
        version=1, run="r", seed=1, namespace="n", stores=[STORE], contracts=contracts, started_wall_seconds=0.0
    )
    return State(header, {STORE: ("redis",)}, SECOND)


def attempt() -> Attempt:
    return Attempt(session=1, writer=0, seq=1, outcome=int(Outcome.OK), sent=BEGAN - 1, ended=BEGAN)


def at(seconds: float) -> int:
    return BEGAN + int(seconds * SECOND)


def fault(started: float, ended: float | None = None, *, target: str = "redis") -> FaultWindow:
    return FaultWindow(
        fault=f"crash-{started}-{target}",
        kind="crash",
        target=target,
        excuses=Excuse.CRASH,
        promotes=Promotion.NONE,
        started=at(started),
        ended=None if ended is None else at(ended),
    )


def test_a_wait_that_is_over_by_the_end_still_counts() -> None:
    waiting = Waiting()
    waiting.until(40.0)
    waiting.verify()
    waiting.until(60.0)
    assert waiting.longest == 40.0


def test_it_survives_a_restart_of_the_verifier(tmp_path: Path) -> None:
    waiting = Waiting()
    waiting.until(40.0)
    waiting.verify()
    checkpoint.write(tmp_path, checkpoint.encode(waiting.state, 0))
    resumed = new_state()
    checkpoint.load(tmp_path, resumed)
    assert longest_unverified_seconds(resumed) == 40.0


def test_a_fault_and_its_recovery_do_not_count() -> None:
    waiting = Waiting()
    waiting.until(3.0)
    window = fault(3.0)
    waiting.state.faults.begin(window)
    waiting.until(50.0)
    window.ended = at(50.0)
    waiting.until(60.0)
    assert waiting.longest == 3.0
    waiting.state.faults.mark_swept(STORE)
    waiting.until(65.0)
    assert waiting.longest == 8.0


def test_a_recovery_counts_once_it_takes_longer_than_allowed() -> None:
    waiting = Waiting()
    waiting.state.faults.begin(fault(0.0, 10.0))
    waiting.until(100.0)
    assert waiting.longest == pytest.approx(100.0 - 10.0 - 60.0, abs=0.6)


def test_a_fault_of_a_server_that_the_store_does_not_need_excuses_nothing() -> None:
    waiting = Waiting()
    waiting.state.faults.begin(fault(0.0, target="postgres"))
    waiting.until(40.0)
    assert waiting.longest == 40.0


def test_faults_that_overlap_are_not_counted_twice() -> None:
    waiting = Waiting()
    for window in (fault(10.0, 20.0), fault(15.0, 25.0)):
        waiting.state.faults.begin(window)
    waiting.state.faults.mark_swept(STORE)
    waiting.until(40.0)
    assert waiting.longest == 25.0


def sample() -> ServerSample:
    return ServerSample(server="redis", at=0, telemetry={}, configuration={})


def test_a_server_that_restarts_by_itself_is_excused_though_that_is_known_only_afterwards() -> None:
    waiting = Waiting()
    waiting.state.samples["redis"] = deque([sample()])
    waiting.until(40.0)  # it does not answer
    waiting.state.answering.add("redis")
    waiting.until(41.0)
    waiting.state.faults.begin(fault(1.0, 40.0))
    waiting.state.faults.mark_swept(STORE)
    waiting.verify()
    waiting.until(60.0)
    assert waiting.longest == pytest.approx(2.0, abs=0.1)


def test_a_server_that_hangs_and_is_still_the_same_excuses_nothing() -> None:
    waiting = Waiting()
    waiting.state.samples["redis"] = deque([sample()])
    waiting.until(40.0)
    waiting.state.answering.add("redis")
    waiting.verify()
    waiting.until(60.0)
    assert waiting.longest == 40.0


def test_a_wait_that_is_not_decided_is_counted_at_the_end() -> None:
    waiting = Waiting()
    waiting.state.samples["redis"] = deque([sample()])
    waiting.until(40.0)
    assert waiting.longest == 0.0
    waiting.ages.finish(at(40.5))
    assert waiting.longest == 40.5


def test_an_unreachable_ledger_and_a_run_that_is_down_as_a_whole_do_not_count() -> None:
    waiting = Waiting()
    waiting.until(2.0)
    waiting.reachable = False
    waiting.until(50.0)
    waiting.reachable = True
    note_downtime(waiting.state, at(60.0), at(90.0))
    waiting.now = 89.5
    waiting.until(95.0)
    assert waiting.longest == pytest.approx(95.0 - 48.0 - 30.0, abs=0.6)


def test_what_waited_when_the_whole_run_was_killed_is_not_counted_before_the_ledger_has_told_of_that() -> None:
    """A verifier that starts knows of the wait by its checkpoint, and of the downtime by the records that follow."""
    waiting = Waiting()
    waiting.until(1.0)
    waiting.downtime_known = False
    waiting.now = 61.0
    waiting.until(63.0)
    waiting.state.workers["w"].sessions[1].book.pending.clear()
    later = attempt()
    waiting.book.lease(0, 2)
    waiting.book.acknowledge(msgspec.structs.replace(later, seq=2, ended=at(60.0)))
    waiting.until(64.0)
    note_downtime(waiting.state, at(1.0), at(60.0))
    waiting.downtime_known = True
    waiting.until(64.5)
    assert waiting.longest == pytest.approx(4.5, abs=0.1)
