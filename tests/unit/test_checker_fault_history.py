"""What is known of a fault over all sessions: who survived it, until when replicas may be behind, how it is merged."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.contract import Contract, Reads, ReplicaReads
from soak.checker.faults import Excuse, FaultHistory, FaultWindow, Promotion, Survivor, is_excused
from soak.checker.read import Rules
from soak.checker.session import StoreJudging
from tests.support.checker.correct_store import AUTHOR

SECOND = 1_000_000
LIST, STREAM, REPLICA = "redis-list", "redis-stream", "postgres-replica"
TARGETS = {LIST: ["redis"], STREAM: ["redis"], REPLICA: ["postgres", "postgres-replica"]}
ANNOUNCED, INJECTED, ENDED = 100 * SECOND, 102 * SECOND, 105 * SECOND
CRASH = FaultWindow(
    fault="f1",
    kind="crash",
    target="redis",
    excuses=Excuse.CRASH,
    promotes=Promotion.NONE,
    down=True,
    started=ANNOUNCED,
    injected=INJECTED,
    ended=ENDED,
)
TWO_SECONDS = Contract(crash_loss_seconds=2.0)
LATE = Survivor(sent=101 * SECOND, applied=101 * SECOND + 10, place=(0, 2))
"""Sent and acknowledged between announcement and injection."""
EARLIER = 100 * SECOND + 500_000
"""When something was acknowledged that is gone."""


def history_of(window: FaultWindow) -> FaultHistory:
    history = FaultHistory(TARGETS)
    history.begin(msgspec.structs.replace(window, swept=[], known={}))
    return history


def window_of(history: FaultHistory) -> FaultWindow:
    (window,) = history.values()
    return window


@pytest.mark.parametrize(
    ("change", "is_proof"),
    [
        ({}, True),
        ({"down": False}, False),
        ({"injected": 101 * SECOND}, False),
        ({"serves": True, "down": False, "deaths": [(102 * SECOND, 103 * SECOND)]}, True),
        ({"serves": True, "down": False, "deaths": [(101 * SECOND, 103 * SECOND)]}, False),
    ],
    ids=["down at injection", "nobody knows when", "injected before", "died after", "died before"],
)
def test_a_survivor_counts_up_to_the_moment_the_fault_took_effect(change: dict[str, object], is_proof: bool) -> None:
    history = history_of(msgspec.structs.replace(CRASH, **change))
    history.note_survivors(["redis"], ENDED + SECOND, [LATE])
    assert is_excused(EARLIER, window_of(history), TWO_SECONDS) is not is_proof


def test_a_read_that_may_be_behind_the_fault_proves_no_survivor() -> None:
    history = history_of(CRASH)
    history.note_survivors(["redis"], ENDED - 1, [LATE])
    assert window_of(history).survivor_sent == 0
    history.note_survivors(["redis"], ENDED, [LATE])
    assert window_of(history).survivor_sent == LATE.sent


def test_a_fault_is_not_over_before_every_store_of_its_server_was_read() -> None:
    history = history_of(CRASH)
    for store, is_calm in ((REPLICA, False), (LIST, False), (STREAM, True)):
        history.mark_swept(store)
        assert history.is_calm(["redis"]) is is_calm
        assert history.collects_survivors(["redis"]) is not is_calm


def test_what_two_verifiers_know_of_a_fault_is_merged_before_anything_is_excused() -> None:
    mine, theirs = history_of(CRASH), history_of(CRASH)
    for store in (LIST, STREAM):
        mine.mark_swept(store)
    theirs.mark_swept(LIST)
    theirs.note_survivors(["redis"], ENDED, [LATE])
    mine.merge(theirs)
    assert not mine.is_calm(["redis"]), "the other one has not read everything"
    assert not is_excused(EARLIER, window_of(mine), TWO_SECONDS), "the other one has seen a survivor"


REPLICA_FAULT = msgspec.structs.replace(CRASH, target="postgres", kind="restart", excuses=Excuse.CLEAN)
CATCH_UP_US = 60 * SECOND


def judging_of(window: FaultWindow, replica_reads: ReplicaReads = ReplicaReads.TOLERANT) -> StoreJudging:
    contract = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=5.0, replica_reads=replica_reads)
    return StoreJudging(
        rules=Rules(contract=contract),
        author=AUTHOR,
        faults=history_of(window),
        targets=TARGETS[REPLICA],
        settle_us=SECOND,
        asks_primary=True,
        reads_replica=True,
    )


@pytest.mark.parametrize(
    ("caught_up", "shadow_end"),
    [(None, ENDED + CATCH_UP_US), (ENDED + 3 * SECOND, ENDED + 3 * SECOND), (ENDED + 99 * SECOND, ENDED + CATCH_UP_US)],
    ids=["never seen to", "soon", "too late"],
)
def test_a_fault_casts_a_shadow_on_replica_reads_until_the_replica_has_caught_up(
    caught_up: int | None, shadow_end: int
) -> None:
    judging = judging_of(msgspec.structs.replace(REPLICA_FAULT, caught_up=caught_up))
    before, within, after = (ANNOUNCED - 2, ANNOUNCED - 1), (ANNOUNCED, shadow_end), (shadow_end + 1, shadow_end + 2)
    assert not judging.is_shadowed(*before)
    assert judging.is_shadowed(*within)
    assert not judging.is_shadowed(*after)
    assert judging.rules_at(*within).contract.staleness_us is None
    assert judging.rules_at(*after).contract.staleness_us == 5 * SECOND


def test_a_replica_read_at_the_edge_of_a_shadow_is_within_it() -> None:
    judging = judging_of(msgspec.structs.replace(REPLICA_FAULT, caught_up=ENDED + 3 * SECOND))
    assert judging.is_shadowed(ANNOUNCED - 1, ANNOUNCED), "it returned after the fault had begun"
    assert judging.is_shadowed(ENDED + 3 * SECOND, ENDED + 4 * SECOND), (
        "it was invoked before the replica had caught up"
    )


def test_a_strict_contract_tolerates_no_replica_that_is_behind() -> None:
    judging = judging_of(REPLICA_FAULT, ReplicaReads.STRICT)
    assert not judging.is_shadowed(ANNOUNCED, ANNOUNCED + 1)
    assert judging.rules_at(ANNOUNCED, ANNOUNCED + 1).contract.staleness_us == 5 * SECOND


@pytest.mark.parametrize("promotes", list(Promotion))
def test_a_primary_that_is_being_replaced_may_be_behind(promotes: Promotion) -> None:
    is_behind = promotes is Promotion.BESIDE_THE_OLD  # otherwise nobody can reach it any more
    fault = msgspec.structs.replace(CRASH, promotes=promotes, excuses=Excuse.FAILOVER, ended=None)
    judging = StoreJudging(
        rules=Rules(contract=Contract()),
        author=AUTHOR,
        faults=history_of(fault),
        targets=TARGETS[LIST],
        settle_us=SECOND,
    )
    assert judging.is_shadowed(ANNOUNCED + 1, ANNOUNCED + 2) is is_behind, "while it is under way"
    window_of(judging.faults).ended = ENDED
    assert judging.is_shadowed(ANNOUNCED + 1, ANNOUNCED + 2) is is_behind
    assert not judging.is_shadowed(ENDED + 1, ENDED + SECOND), "not when it is over"
    assert not judging.is_shadowed(ANNOUNCED - 2, ANNOUNCED - 1), "not before"


@pytest.mark.parametrize(("kind", "goes_on"), [("crash", True), ("failover", True), ("restart", False)])
def test_a_server_that_died_or_was_replaced_by_itself_is_back_in_the_fault_that_is_under_way(
    kind: str, goes_on: bool
) -> None:
    history = history_of(msgspec.structs.replace(CRASH, kind="disk_full", serves=True, ended=None, deaths=[]))
    by_itself = msgspec.structs.replace(CRASH, fault="f2", kind=kind, planned=False, started=INJECTED, ended=None)
    history.begin(by_itself)
    history.end("f2", ENDED, {}, {})
    assert history.windows["f1"].is_active is goes_on
    assert history.windows["f1"].deaths == [(INJECTED, ENDED)]
