"""Clocks that are set, and machines that are suspended: noticed, and nothing that expires by them is judged."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.contract import Contract
from soak.checker.outcome import Attempt
from soak.checker.read import Rules
from soak.checker.telemetry import ServerSample
from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, Lease, Open
from soak.verifier.account import clock_doubts
from soak.verifier.intake import Intake
from soak.verifier.state import State
from soak.verifier.tracked_session import Taint
from soak.verifier.wall_clocks import WallClocks
from tests.support.run_headers import header_of

SECOND = 1_000_000
EPOCH = 1_700_000_000 * SECOND


def state_of(ttl_seconds: float | None) -> State:
    contract = Contract(ttl_seconds=ttl_seconds)
    header = header_of({"redis-hash": contract})
    return State(header, {"redis-hash": ("redis",)}, SECOND)


class Watched:
    """A server that is asked every second, and what came of it."""

    def __init__(self, ttl_seconds: float | None = 60.0) -> None:
        self.state = state_of(ttl_seconds)
        self.stepped: list[frozenset[str]] = []
        self.walls = WallClocks(self.state, SECOND, self.stepped.append)
        self.at = 100 * SECOND
        self.wall_us = EPOCH

    def ask(self, times: int = 5, *, is_planned: bool = False, took_us: int = 3_000) -> None:
        for _ in range(times):
            self.at += SECOND
            told = {"server_time_usec": str(self.at + self.wall_us)}
            sample = ServerSample(server="redis", at=self.at + took_us // 2, configuration={}, telemetry=told)
            self.walls.take(sample, self.at - took_us // 2, is_planned=is_planned)

    @property
    def told(self) -> list[str]:
        return [event.text for event in self.state.tally.events]


@pytest.mark.parametrize("step_us", [3_600 * SECOND, -2 * SECOND])
def test_a_servers_clock_that_was_set_is_noticed_and_what_expires_by_it_is_not_judged(step_us: int) -> None:
    watched = Watched()
    watched.ask()
    assert (watched.told, watched.stepped) == ([], [])
    watched.wall_us += step_us
    watched.ask()
    assert watched.stepped == [frozenset({"redis"})], "once"
    assert watched.told == [f"the wall clock of redis was set by {step_us / SECOND:+.1f} s"]
    assert watched.state.tally.server_clock_steps == {"redis": 1}


def test_open_sessions_that_expire_by_a_clock_that_was_set_are_undecided_and_no_others() -> None:
    contracts = {
        "redis-hash": Contract(ttl_seconds=60.0),
        "redis-list": Contract(),
        "postgres": Contract(ttl_seconds=60.0),
    }
    targets: dict[str, tuple[str, ...]] = {
        "redis-hash": ("redis",),
        "redis-list": ("redis",),
        "postgres": ("postgres",),
    }
    watched = Watched()
    header = msgspec.structs.replace(watched.state.header, stores=list(contracts), contracts=contracts)
    watched.state = State(header, targets, SECOND)
    rules = {store: Rules(contract=contract, ttl_epsilon_us=SECOND) for store, contract in contracts.items()}
    intake = Intake(watched.state, rules, "here")
    watched.walls = WallClocks(watched.state, SECOND, intake.doubt_expiring)

    def tell(number: int, batch: Batch) -> None:
        intake.take(WorkerBatch(f"{number}-0", "w", "here", 0, number, batch), watched.at)

    def said(session: int, seq: int) -> Attempt:
        return Attempt(session=session, writer=0, seq=seq, outcome=0, sent=watched.at, ended=watched.at + 1)

    opens = [Open(number, f"s{number}", store) for number, store in enumerate(contracts, 1)]
    leases = [Lease(number, 0, 8) for number in (1, 2, 3, 4)]
    tell(1, Batch(opens=opens, leases=leases, attempts=[said(session, seq) for session in (1, 2, 3) for seq in (1, 2)]))
    watched.ask()
    watched.wall_us += 3_600 * SECOND
    watched.ask()
    tell(2, Batch(attempts=[said(session, 3) for session in (1, 2, 3)]))
    assert [one.tainted for one in watched.state.tracked()] == [Taint.UNDECIDED, Taint.NONE, Taint.NONE]
    assert {name: tally.undecided for name, tally in watched.state.tally.stores.items()} == {
        "redis-hash": 3,
        "redis-list": 0,
        "postgres": 0,
    }
    assert clock_doubts(watched.state) == ["the wall clock of redis was set while sessions were to expire by it"]
    tell(3, Batch(opens=[Open(4, "later", "redis-hash")], leases=leases, attempts=[said(4, 1)]))
    assert watched.state.tracked()[-1].tainted is Taint.NONE, "it expires by the clock as it is now"


def test_where_nothing_expires_it_is_only_reported() -> None:
    watched = Watched(ttl_seconds=None)
    watched.ask()
    watched.wall_us += 3_600 * SECOND
    watched.ask()
    assert len(watched.told) == 1
    assert watched.stepped == []
    assert watched.state.tally.server_clock_steps == {}


def test_a_step_within_the_slack_of_every_expiry_changes_nothing() -> None:
    watched = Watched()
    watched.ask()
    watched.wall_us += 300_000
    watched.ask()
    assert len(watched.told) == 1
    assert watched.stepped == []


def test_a_planned_fault_may_set_the_clock_and_slow_answers_and_drift_are_no_step() -> None:
    watched = Watched()
    watched.ask()
    watched.wall_us += 3_600 * SECOND
    watched.ask(is_planned=True)
    watched.wall_us -= 3_600 * SECOND
    watched.ask(1, is_planned=True)
    for _ in range(600):
        watched.wall_us += 200
        watched.ask(1, took_us=400_000)
    assert (watched.told, watched.stepped) == ([], [])


def test_a_postgresql_tells_the_time_by_its_start_and_how_long_it_runs() -> None:
    watched = Watched()
    for started, at in ((1_000.0, 10), (1_000.0, 11), (4_600.0, 12)):
        told = {"postmaster_started": f"{started}", "uptime_seconds": f"{at}.0"}
        sample = ServerSample(server="redis", at=at * SECOND, configuration={}, telemetry=told)
        watched.walls.take(sample, at * SECOND - 1_000, is_planned=False)
    assert watched.stepped == [frozenset({"redis"})]


def test_a_suspended_machine_and_a_wall_clock_that_was_set_are_told_apart() -> None:
    state = state_of(None)
    walls = WallClocks(state, SECOND)
    offset, asleep = EPOCH, 0
    walls._suspended_us, walls._wall_us = asleep, offset
    walls.look(offset + 40_000, asleep)
    assert state.tally.events == []
    walls.look(offset + 30 * SECOND, asleep + 30 * SECOND)
    walls.look(offset - 5 * SECOND, asleep + 30 * SECOND)
    assert [event.text for event in state.tally.events] == [
        "this machine was suspended for 30.0 s",
        "the wall clock of this machine was set by -35.0 s",
    ]
