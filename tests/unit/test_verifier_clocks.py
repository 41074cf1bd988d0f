"""Times of other hosts: converted by what was measured, undecided where that is not enough, untouched on one host."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from soak.checker.contract import Contract
from soak.checker.faults import Excuse, Promotion
from soak.checker.outcome import Attempt
from soak.checker.read import Rules
from soak.ledger.clock import Bracket, LedgerClock
from soak.ledger.reader import RunRecord, WorkerBatch
from soak.ledger.records import Batch, EndOfLoad, FaultPhase, Lease, Open, RunHeader
from soak.verifier.clocks import Clocks, Placing, Stamp
from soak.verifier.intake import Intake
from soak.verifier.state import State
from soak.verifier.tracked_session import Taint

STORE = "redis-list"
SECOND = 1_000_000
LEDGER_EPOCH = 1_700_000_000 * SECOND
HERE, THERE = "here", "there"


@dataclasses.dataclass
class Hosts:
    """A ledger, a verifier and a worker, each with a clock of its own."""

    true_us: int = 1_000 * SECOND
    ledger_ahead_us: int = LEDGER_EPOCH
    worker_ahead_us: int = -300 * SECOND
    worker_error_us: int = 400
    worker_knows_us: int | None = None
    """The worker's offset as it last measured it; None: as it is."""

    def __post_init__(self) -> None:
        self.own = LedgerClock(self.ask)
        self.clocks = Clocks(HERE, self.own, error_max_us=250_000)

    def now_us(self) -> int:
        return self.true_us

    async def ask(self) -> tuple[int, int]:
        self.true_us += 600
        return divmod(self.true_us - 300 + self.ledger_ahead_us, SECOND)

    def measure(self) -> None:
        now = self.true_us + self.ledger_ahead_us
        self.own.take(Bracket(now - self.true_us - 300, now - self.true_us + 300, self.true_us))

    def worker_offset_us(self) -> int:
        return self.ledger_ahead_us - self.worker_ahead_us

    def stamp(self, error_us: int | None = 400) -> Stamp:
        offset = self.worker_offset_us() if self.worker_knows_us is None else self.worker_knows_us
        return Stamp(THERE, "boot-there", offset, error_us, self.true_us + self.ledger_ahead_us)

    def place(self, error_us: int | None = 400) -> Placing:
        shift, placing = self.clocks.place(self.stamp(error_us))
        if placing is not Placing.UNCERTAIN:
            assert abs(shift + self.worker_ahead_us) <= self.clocks.hosts["boot-there"].error_us
        return placing


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    made = Hosts()
    monkeypatch.setattr("soak.ledger.clock.now_us", made.now_us)
    monkeypatch.setattr("soak.verifier.clocks.now_us", made.now_us)
    made.clocks = Clocks(HERE, made.own, error_max_us=250_000)
    made.measure()
    return made


def run(hosts: Hosts, seconds: int, *, drift_ppm: int = 0) -> set[Placing]:
    placed = set()
    for _ in range(seconds):
        hosts.true_us += SECOND
        hosts.worker_ahead_us += drift_ppm
        hosts.measure()
        placed.add(hosts.place())
    return placed


def test_on_one_host_nothing_is_converted_and_epsilon_is_zero(hosts: Hosts) -> None:
    assert not hosts.clocks.is_foreign(HERE)
    assert not hosts.clocks.is_foreign("")
    assert (hosts.clocks.epsilon_us, hosts.clocks.doubts, hosts.clocks.warnings) == (0, [], [])


@pytest.mark.parametrize("ahead_us", [5_000, -SECOND, 300 * SECOND])
@pytest.mark.parametrize("drift_ppm", [0, 200, -200])
def test_times_of_another_host_are_converted_within_their_error(hosts: Hosts, ahead_us: int, drift_ppm: int) -> None:
    hosts.worker_ahead_us = ahead_us
    assert run(hosts, 300, drift_ppm=drift_ppm) == {Placing.CERTAIN}
    assert 0 < hosts.clocks.epsilon_us <= 10_000
    assert not hosts.clocks.doubts


def test_epsilon_is_what_the_two_least_known_clocks_are_wrong_by_at_most(hosts: Hosts) -> None:
    wider: list[int] = []
    hosts.clocks.on_wider = wider.append
    for boot, error in (("a", 1_700), ("b", 9_700), ("c", 4_700)):
        hosts.clocks.place(Stamp(boot, boot, hosts.worker_offset_us(), error, hosts.true_us + hosts.ledger_ahead_us))
    assert hosts.clocks.epsilon_us == 15_000, "9,700 and 4,700, and 300 for the verifier's own with each of them"
    assert wider[-1] == 15_000


@pytest.mark.parametrize("step_us", [40_000, -SECOND, 300 * SECOND])
@pytest.mark.parametrize("first", ["worker", "verifier"])
def test_when_the_ledgers_clock_is_set_nobody_jumps_whoever_notices_first(
    hosts: Hosts, step_us: int, first: str
) -> None:
    run(hosts, 30)
    before = hosts.worker_offset_us()
    hosts.ledger_ahead_us += step_us
    if first == "verifier":
        hosts.measure()
        hosts.worker_knows_us = before
        assert hosts.place() is Placing.CERTAIN
        hosts.worker_knows_us = None
    else:
        hosts.measure()  # as `prepare` does where a record does not fit
    assert run(hosts, 30) == {Placing.CERTAIN}
    assert hosts.clocks.hosts["boot-there"].jumps == 0


async def test_a_record_that_does_not_fit_makes_the_verifier_measure_its_own_clock(hosts: Hosts) -> None:
    run(hosts, 5)
    hosts.ledger_ahead_us += 7 * SECOND
    await hosts.clocks.prepare([None, hosts.stamp()])
    assert hosts.place() is Placing.CERTAIN
    assert len(hosts.own.brackets) == 2


def test_a_host_that_was_suspended_jumps_once_and_makes_the_run_inconclusive(hosts: Hosts) -> None:
    run(hosts, 10)
    hosts.worker_ahead_us -= 30 * SECOND
    assert hosts.place() is Placing.JUMPED
    assert run(hosts, 10) == {Placing.CERTAIN}
    assert hosts.clocks.doubts == [], "it had nothing under way"
    hosts.clocks.note_undecided("boot-there")
    assert hosts.clocks.doubts == ["the clock of there jumped: it was suspended, or moved"]


class Written:
    """What a worker there, whose host may be suspended, wrote to the ledger, and the daemon beside it."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        header = RunHeader(
            version=1, run="r", seed=1, namespace="n", stores=[STORE], contracts={STORE: Contract()},
            started_wall_seconds=0.0,
        )  # fmt: skip
        self.state = State(header, {STORE: ("redis",)}, SECOND)
        self.state.clocks = hosts.clocks
        self.intake = Intake(self.state, {STORE: Rules(contract=Contract(), ttl_epsilon_us=0)}, HERE, hosts.clocks)
        self.number = 0

    def batch(self, batch: Batch) -> None:
        self.number += 1
        stamp = self.hosts.stamp()
        entry = WorkerBatch("1-0", "w", stamp.boot, stamp.offset_us, self.number, batch, THERE, stamp.error_us)
        self.intake.take(entry._replace(at=f"{stamp.ledger_us // 1000}-0"), self.hosts.true_us)

    def record(self, record: FaultPhase | EndOfLoad) -> None:
        stamp = self.hosts.stamp()
        dated = msgspec.structs.replace(
            record, host=THERE, boot=stamp.boot, clock_offset_us=stamp.offset_us, clock_error_us=stamp.error_us
        )
        self.intake.take(RunRecord(f"{stamp.ledger_us // 1000}-0", dated), self.hosts.true_us)

    def fault(self, phase: str) -> None:
        at = self.hosts.true_us + self.hosts.worker_ahead_us
        record = FaultPhase(
            fault="f", kind="crash", target="redis", phase=phase, at=at, excuses=Excuse.CRASH, promotes=Promotion.NONE
        )
        self.record(record)

    def tainted(self) -> list[Taint]:
        return [tracked.tainted for tracked in self.state.tracked()]


@pytest.mark.parametrize("first", ["its own batch", "another verifier", "the end of the load", "a fault"])
def test_what_was_open_on_a_host_that_was_suspended_is_undecided_whoever_notices_that_first(
    hosts: Hosts, first: str
) -> None:
    written = Written(hosts)
    written.batch(Batch(opens=[Open(1, "talk", STORE)], leases=[Lease(1, 0, 8)]))
    hosts.worker_ahead_us -= 30 * SECOND
    hosts.true_us += 30 * SECOND
    hosts.measure()
    if first == "another verifier":
        hosts.clocks.place_word(hosts.stamp())
    elif first == "the end of the load":
        written.record(EndOfLoad(at=hosts.true_us + hosts.worker_ahead_us, reason=""))
    elif first == "a fault":
        written.fault("start")
    sent = hosts.true_us + hosts.worker_ahead_us
    written.batch(Batch(attempts=[Attempt(session=1, writer=0, seq=1, outcome=0, sent=sent, ended=sent + 1)]))
    assert written.tainted() == [Taint.UNDECIDED]
    assert hosts.clocks.doubts == ["the clock of there jumped: it was suspended, or moved"]
    assert hosts.clocks.hosts["boot-there"].jumps == 1


@pytest.mark.parametrize("noticed", ["by its own record", "by another verifier"])
def test_a_fault_that_a_host_began_before_it_was_suspended_decides_nothing_for_anybody(
    hosts: Hosts, noticed: str
) -> None:
    written = Written(hosts)
    here = WorkerBatch("1-0", "here", HERE, 0, 1, Batch(opens=[Open(1, "talk", STORE)]), HERE, 0)
    written.intake.take(here, hosts.true_us)
    written.fault("start")
    hosts.worker_ahead_us -= 30 * SECOND
    if noticed == "by another verifier":
        hosts.clocks.place_word(hosts.stamp())
    written.fault("end")
    assert written.tainted() == [Taint.UNDECIDED]


def test_what_was_said_before_a_jump_and_is_heard_again_is_no_second_jump(hosts: Hosts) -> None:
    run(hosts, 10)
    said = hosts.stamp()
    assert hosts.clocks.place_word(said)[1] is Placing.CERTAIN
    hosts.true_us += 30 * SECOND
    hosts.worker_ahead_us -= 30 * SECOND
    hosts.measure()
    assert hosts.place() is Placing.JUMPED
    for _ in range(3):
        assert hosts.clocks.place_word(said)[1] is Placing.UNCERTAIN
        assert run(hosts, 1) == {Placing.CERTAIN}
    assert hosts.clocks.hosts["boot-there"].jumps == 1


def test_a_clock_that_is_known_too_badly_is_uncertain_until_it_is_known_better(hosts: Hosts) -> None:
    assert hosts.place(300_000) is Placing.UNCERTAIN
    assert hosts.clocks.epsilon_us == 0, "what is not judged widens nothing"
    assert "clock.error_max = 0.25s" in hosts.clocks.warnings[0]
    assert hosts.place(400) is Placing.CERTAIN
    assert not hosts.clocks.warnings
    hosts.clocks.note_undecided("boot-there")
    assert hosts.clocks.doubts == ["the clock of there was uncertain by more than clock.error_max = 0.25s"]


def test_a_host_that_could_not_measure_is_uncertain(hosts: Hosts) -> None:
    assert hosts.place(None) is Placing.UNCERTAIN
    assert hosts.place(400) is Placing.CERTAIN


def test_old_records_are_converted_though_the_worker_drifted_for_hours(hosts: Hosts) -> None:
    """A verifier that is started later reads hours in a second: what counts is when records were written."""
    hosts.measure()
    for hour in range(1, 7):
        stamp = hosts.stamp()._replace(ledger_us=hosts.true_us + hosts.ledger_ahead_us + hour * 3_600 * SECOND)
        drifted = stamp._replace(offset_us=stamp.offset_us + hour * 3_600 * 200)
        assert hosts.clocks.place(drifted)[1] is Placing.CERTAIN
