"""A primary is replaced: what the old one acknowledged may be gone, and what stood in one log stays together."""

from __future__ import annotations

import pytest

from soak.checker.contract import Contract, Duplicates, Reads, ReplicaReads
from soak.checker.events import Confirmed
from soak.checker.faults import Excuse, FaultHistory, FaultWindow, Promotion
from soak.checker.kinds import Kind
from soak.checker.read import Rules
from soak.checker.session import SessionChecker, StoreJudging
from tests.support.checker.correct_store import AUTHOR
from tests.support.checker.talk import SECOND, Talk

STARTED, ENDED = 10.0, 20.0
CLAUSE = Contract(failover_loss_seconds=2.0)
STRICT = Contract(failover_loss_seconds=2.0, replica_reads=ReplicaReads.STRICT)
RETRYING = Contract(failover_loss_seconds=2.0, duplicates=Duplicates.AT_LEAST_ONCE)
CACHE = Contract(failover_loss_seconds=None)


class Group:
    """One session on a group of nodes whose primary is replaced between `STARTED` and `ENDED`."""

    def __init__(self, contract: Contract = CLAUSE, epsilon_us: int = 0) -> None:
        rules = Rules(contract=contract, clock_epsilon_us=epsilon_us)
        self.talk = Talk(rules, writers=2)
        faults = FaultHistory({"redis-list": ["redis"]})
        judging = StoreJudging(rules=rules, author=AUTHOR, faults=faults, targets=["redis"], settle_us=SECOND)
        self.checker = SessionChecker(judging, self.talk.book)
        self.window = FaultWindow(
            fault="f1",
            kind="partial_partition",
            target="redis",
            excuses=Excuse.FAILOVER,
            promotes=Promotion.BESIDE_THE_OLD,
            started=int(STARTED * SECOND),
        )
        faults.begin(self.window)

    def read(self, at: float, *places: int | tuple[int, int]) -> set[Kind]:
        """Return the violations that a full read confirms."""
        events = self.checker.observe(self.talk.read(at, *places)).events
        return {event.kind for event in events if isinstance(event, Confirmed)}

    def end(self) -> None:
        """Let the failover be over, and everything be read once since."""
        self.window.ended = int(ENDED * SECOND)
        self.checker.store.faults.mark_swept("redis-list")


def after_the_loss(contract: Contract, *, together: bool, epsilon_us: int = 0) -> set[Kind]:
    """Lose the first of two that were acknowledged in the window, shown by one read or by none."""
    group = Group(contract, epsilon_us)
    group.talk.ack(1, 12.0)
    group.talk.ack(2, 13.0, sent=12.5)
    if together:
        assert group.read(14.0, 1, 2) == set()
    group.end()
    assert group.read(21.0, 2) == set()
    return group.read(23.0, 2)


def test_what_stood_in_one_log_with_a_survivor_is_a_hole_whichever_primary_acknowledged_it() -> None:
    assert after_the_loss(CLAUSE, together=True) == {Kind.ROLLED_BACK}
    assert after_the_loss(STRICT, together=True) == {Kind.ROLLED_BACK}


def test_what_was_never_shown_with_a_survivor_is_excused_within_the_window() -> None:
    assert after_the_loss(CLAUSE, together=False) == set()


@pytest.mark.parametrize(
    "contract",
    [RETRYING, CACHE, Contract(failover_loss_seconds=2.0, reads=Reads.EVENTUAL)],
    ids=["a retry may have come after the loss", "a cache may lose anything", "no read is of one log"],
)
def test_one_log_proves_nothing_where_none_is_promised(contract: Contract) -> None:
    assert after_the_loss(contract, together=True) == set()


def test_clocks_that_may_be_apart_do_not_tell_which_of_two_was_first() -> None:
    assert after_the_loss(CLAUSE, together=True, epsilon_us=600_000) == set()


def test_two_messages_that_two_reads_have_shown_may_be_of_two_primaries() -> None:
    group = Group()
    for writer in (0, 1):
        group.talk.ack(1, 9.2, writer=writer, sent=9.0)
    assert group.read(9.5, (0, 1), (1, 1)) == set()
    group.talk.ack(2, 12.0, writer=1)
    # The read of the end joins on to what the old primary had shown, and does not show all of it.
    assert group.checker.observe_tail(group.talk.read(12.5, (1, 1), (1, 2)), 2) is not None
    group.end()
    assert group.read(21.0, (1, 1), (1, 2)) == set()
    assert group.read(23.0, (1, 1), (1, 2)) == set()


def test_what_the_old_primary_acknowledged_is_excused_and_what_came_after_the_failover_is_not() -> None:
    for acknowledged, expected in ((7.9, {Kind.LOST}), (8.1, set()), (19.9, set()), (20.1, {Kind.LOST})):
        group = Group()
        group.talk.ack(1, acknowledged)
        group.end()
        assert group.read(21.0) == set()
        assert group.read(23.0) == expected, acknowledged


def test_reads_of_the_old_primary_are_tolerated_unless_the_contract_is_strict() -> None:
    for contract, expected in ((CLAUSE, set()), (STRICT, {Kind.NON_MONOTONIC})):
        group = Group(contract)
        group.talk.ack(1, 5.0)
        assert group.read(6.0, 1) == set()
        assert group.read(12.0) == set()
        assert group.read(13.0, 1) == expected
