"""Two hosts whose clocks may be apart: what follows only from comparing their times is not held against anybody.

Each case is a violation by one clock, and proves nothing if the clocks may be apart by more than it is about.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from soak.checker.contract import Contract
from soak.checker.events import Confirmed
from soak.checker.faults import Excuse, FaultHistory, FaultWindow, Promotion
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, ForgetBegun, ForgetEnded, Outcome
from soak.checker.read import Rules
from soak.checker.session import SessionChecker, StoreJudging
from tests.support.checker.correct_store import AUTHOR
from tests.support.checker.talk import SECOND, Talk

EPSILON = 300_000
TAIL = Contract(crash_loss_seconds=2.0)
LAST_TWO = Contract(retained_messages=2)


class Hosts:
    """One session, its verifier, and who breaks its server, each with a clock of its own."""

    def __init__(self, contract: Contract, epsilon_us: int) -> None:
        rules = Rules(contract=contract, clock_epsilon_us=epsilon_us)
        self.talk = Talk(rules, writers=3)
        faults = FaultHistory({"redis-list": ["redis"]})
        judging = StoreJudging(rules=rules, author=AUTHOR, faults=faults, targets=["redis"], settle_us=SECOND)
        self.checker = SessionChecker(judging, self.talk.book)
        self.found: set[Kind] = set()

    def ack(self, writer: int, seq: int, sent: float, ended: float) -> None:
        self.checker.apply(Attempt(1, writer, seq, int(Outcome.OK), int(sent * SECOND), int(ended * SECOND)))

    def forget(self, sent: float, ended: float) -> None:
        self.checker.apply(ForgetBegun(int(sent * SECOND)))
        self.checker.apply(ForgetEnded(Outcome.OK, int(sent * SECOND), int(ended * SECOND)))

    def read(self, at: float, *places: tuple[int, int]) -> None:
        events = self.checker.observe(self.talk.read(at, *places)).events
        self.found |= {event.kind for event in events if isinstance(event, Confirmed)}

    def crash(self, started: float, ended: float) -> None:
        window = FaultWindow(
            fault="f1",
            kind="crash",
            target="redis",
            excuses=Excuse.CRASH,
            promotes=Promotion.NONE,
            started=int(started * SECOND),
            ended=int(ended * SECOND),
        )
        self.checker.store.faults.begin(window)
        self.checker.doubt(window)
        self.checker.store.faults.mark_swept("redis-list")


def forgotten_just_before(hosts: Hosts) -> None:
    """Show behind a forget what was acknowledged just before it was sent."""
    hosts.ack(0, 1, 1.0, 2.0)
    hosts.forget(2.1, 2.2)
    hosts.read(9.0, (0, 1))


def lost_just_after_a_forget(hosts: Hosts) -> None:
    """Lose what was sent just after a forget was answered."""
    hosts.forget(1.0, 2.0)
    hosts.ack(0, 1, 2.1, 2.2)
    hosts.read(5.0)
    hosts.read(9.0)


def shown_just_after_a_crash(hosts: Hosts) -> None:
    """Lose what a read had shown just after a crash was over: by another clock, before it."""
    hosts.ack(0, 1, 4.0, 4.1)
    hosts.crash(5.0, 6.0)
    hosts.read(6.1, (0, 1))
    hosts.read(8.0)
    hosts.read(10.0)


def missed_just_before_a_crash(hosts: Hosts) -> None:
    """Miss it in a read that was made just before a crash: by another clock, after it."""
    hosts.ack(0, 1, 4.0, 4.1)
    hosts.read(4.9)
    hosts.crash(5.0, 6.0)
    hosts.read(8.0)


def an_older_one_is_kept(hosts: Hosts) -> None:
    """Keep, of the last two, one that was acknowledged just before the missing one was sent."""
    hosts.ack(0, 1, 1.0, 1.1)
    hosts.ack(1, 1, 1.2, 1.3)
    hosts.ack(2, 1, 3.0, 3.1)
    hosts.read(5.0, (0, 1), (2, 1))
    hosts.read(9.0, (0, 1), (2, 1))


def told_late(hosts: Hosts) -> None:
    """Hear late of an acknowledgement just before a read that lacked it, when another one has shown it."""
    hosts.read(2.0)
    hosts.read(3.0, (0, 1))
    hosts.ack(0, 1, 1.0, 1.9)
    hosts.read(4.0, (0, 1))


CASES: dict[Callable[[Hosts], None], tuple[Contract, Kind]] = {
    forgotten_just_before: (Contract(), Kind.RESURRECTED),
    lost_just_after_a_forget: (Contract(), Kind.LOST),
    shown_just_after_a_crash: (TAIL, Kind.ROLLED_BACK),
    missed_just_before_a_crash: (TAIL, Kind.LOST),
    an_older_one_is_kept: (LAST_TWO, Kind.LOST),
    told_late: (Contract(), Kind.STALE),
}


@pytest.mark.parametrize("happen", CASES, ids=[case.__name__ for case in CASES])
def test_what_clocks_do_not_tell_is_not_held_against_anybody(happen: Callable[[Hosts], None]) -> None:
    contract, kind = CASES[happen]
    for epsilon_us, expected in ((0, {kind}), (EPSILON, set())):
        hosts = Hosts(contract, epsilon_us)
        happen(hosts)
        assert hosts.found == expected, f"{happen.__doc__} epsilon {epsilon_us}"
