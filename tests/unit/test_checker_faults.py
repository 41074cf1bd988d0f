"""Which acknowledged loss a fault excuses."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.contract import Contract
from soak.checker.faults import DEATHS_MAX, Excuse, FaultWindow, Promotion, allowed_loss_seconds, is_excused
from soak.faults.catalogue import ALL as FAULTS

SECOND = 1_000_000
STARTED, ENDED = 100 * SECOND, 103 * SECOND
CRASH = FaultWindow(
    fault="f1",
    kind="crash",
    target="redis",
    excuses=Excuse.CRASH,
    promotes=Promotion.NONE,
    started=STARTED,
    ended=ENDED,
)
TWO_SECONDS = Contract(crash_loss_seconds=2.0, power_loss_seconds=5.0, failover_loss_seconds=3.0)


def acked(_sent: float, ended: float) -> int:
    """Return by when a message that was acknowledged then had been applied."""
    return int(ended * SECOND)


def test_the_tail_before_a_crash_is_excused_as_far_as_the_contract_goes() -> None:
    assert is_excused(acked(99.8, 99.9), CRASH, TWO_SECONDS)
    assert is_excused(acked(97.9, 98.0), CRASH, TWO_SECONDS)
    assert not is_excused(acked(97.8, 97.9), CRASH, TWO_SECONDS)


def test_a_contract_that_allows_nothing_excuses_nothing() -> None:
    assert not is_excused(acked(99.8, 99.9), CRASH, Contract())


def test_a_cache_may_lose_anything_that_was_said_before_it_came_back() -> None:
    cache = Contract(crash_loss_seconds=None)
    window = msgspec.structs.replace(CRASH, survivor_sent=99 * SECOND)
    assert is_excused(acked(1.0, 1.1), window, cache)
    assert not is_excused(acked(103.1, 103.2), window, cache)


def test_a_hole_is_not_excused() -> None:
    window = msgspec.structs.replace(CRASH, survivor_sent=int(99.5 * SECOND))
    assert not is_excused(acked(99.2, 99.3), window, TWO_SECONDS)
    assert is_excused(acked(99.6, 99.7), window, TWO_SECONDS), "what was sent later is still a tail"
    assert is_excused(acked(99.4, 99.6), window, TWO_SECONDS), "the two overlapped: either may have come first"


@pytest.mark.parametrize("kind", ["crash", "power_cut", "restart", "wiped_volume"])
def test_the_death_of_a_server_that_rests_on_another_excuses_nothing_that_the_other_may_lose(kind: str) -> None:
    resting = msgspec.structs.replace(CRASH, kind=kind, excuses=FAULTS[kind].excuses, planned=False, keeps_data=False)
    assert not is_excused(acked(99.8, 99.9), resting, TWO_SECONDS)
    assert not is_excused(acked(99.8, 99.9), resting, Contract(crash_loss_seconds=None)), "not even a cache: it lives"


def test_what_was_acknowledged_after_the_recovery_is_not_excused() -> None:
    assert is_excused(acked(100.5, 100.6), CRASH, TWO_SECONDS)
    assert not is_excused(acked(103.1, 103.2), CRASH, TWO_SECONDS)
    assert not is_excused(acked(102.9, 103.1), CRASH, TWO_SECONDS), "sent before, acknowledged after"


def test_nothing_is_excused_before_the_fault_is_over() -> None:
    assert not is_excused(acked(99.8, 99.9), msgspec.structs.replace(CRASH, ended=None), TWO_SECONDS)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("crash", 2.0), ("restart", 0.0), ("power_cut", 5.0), ("pause", 0.0), ("latency", 0.0)],
)
def test_each_kind_of_fault_has_its_own_clause(kind: str, seconds: float) -> None:
    window = msgspec.structs.replace(CRASH, kind=kind, excuses=FAULTS[kind].excuses)
    assert allowed_loss_seconds(window, TWO_SECONDS) == seconds
    assert is_excused(acked(99.8, 99.9), window, TWO_SECONDS) == (seconds > 0)
    assert is_excused(acked(96.0, 96.1), window, TWO_SECONDS) == (seconds > 4)


SYNCS_FAIL = msgspec.structs.replace(CRASH, kind="fsync_error", excuses=Excuse.POWER, serves=True, ended=130 * SECOND)


def test_what_is_acknowledged_through_a_fault_has_to_be_there_but_for_the_tail_before_its_end() -> None:
    assert is_excused(acked(127.0, 127.1), SYNCS_FAIL, TWO_SECONDS)
    assert not is_excused(acked(110.0, 110.1), SYNCS_FAIL, TWO_SECONDS), "nobody died then"
    assert not is_excused(acked(99.8, 99.9), SYNCS_FAIL, TWO_SECONDS), "that it began takes nothing"
    assert not is_excused(acked(130.1, 130.2), SYNCS_FAIL, TWO_SECONDS)


def test_a_server_that_dies_through_a_fault_may_lose_the_tail_before_each_death() -> None:
    window = msgspec.structs.replace(SYNCS_FAIL, deaths=[])
    for died in (103, 112):
        window.note_death(died * SECOND, (died + 1) * SECOND)
    assert is_excused(acked(99.0, 99.1), window, TWO_SECONDS), "it was not yet on the disk when syncs began to fail"
    assert is_excused(acked(107.1, 107.2), window, TWO_SECONDS)
    assert is_excused(acked(111.9, 112.5), window, TWO_SECONDS), "its answer came while the server was dying"
    assert not is_excused(acked(105.0, 105.1), window, TWO_SECONDS), "after one death, and too long before the next"
    assert not is_excused(acked(120.0, 120.1), window, TWO_SECONDS)


def test_of_too_many_deaths_not_all_are_known_and_nobody_is_accused() -> None:
    window = msgspec.structs.replace(SYNCS_FAIL, deaths=[])
    for number in range(2 * DEATHS_MAX):
        window.note_death(101 * SECOND + number, 101 * SECOND + number)
    assert len(window.deaths) == DEATHS_MAX
    assert is_excused(acked(120.0, 120.1), window, TWO_SECONDS)


CRASHES = ["container_oom", "shutdown_nosave"]
POWER_CUTS = ["fsync_error"]
SPOILERS = ["restart_from_aof", "restart_from_rdb", "failover", "upgrade", "downgrade", "clock_step"]
SPOILERS += ["file_corruption", "aof_truncation"]
HARMLESS = [
    "partition",
    "connection_refused",
    "connection_reset",
    "slow_link",
    "dropped_reply",
    "connection_exhaustion",
    "replica_lag",
]
HARMLESS += ["eviction", "ttl_change", "disk_full", "slow_fsync"]


@pytest.mark.parametrize(
    ("kind", "seconds", "of_a_cache"),
    [
        *((kind, 2.0, None) for kind in CRASHES),
        *((kind, 5.0, None) for kind in POWER_CUTS),
        ("early_failover", 3.0, None),
        *((kind, 0.0, None) for kind in SPOILERS),
        *((kind, 0.0, 0.0) for kind in HARMLESS),
    ],
)
def test_each_fault_of_the_catalogue_takes_what_its_class_may(
    kind: str, seconds: float, of_a_cache: float | None
) -> None:
    window = msgspec.structs.replace(CRASH, kind=kind, excuses=FAULTS[kind].excuses)
    cache = Contract(crash_loss_seconds=None, power_loss_seconds=None, failover_loss_seconds=None)
    assert allowed_loss_seconds(window, TWO_SECONDS) == seconds
    assert allowed_loss_seconds(window, cache) == of_a_cache
    just_before = acked(99.8, 99.9)
    assert is_excused(just_before, window, TWO_SECONDS) == (seconds > 0)
    assert is_excused(just_before, window, cache) == (of_a_cache is None)
    assert not is_excused(just_before, window, Contract())
    assert not is_excused(acked(90.0, 90.1), window, TWO_SECONDS), "no tail is that long"
    assert not is_excused(acked(103.1, 103.2), window, cache), "it was acknowledged after the recovery"


@pytest.mark.parametrize("kind", ["failover", "early_failover"])
def test_a_hole_is_excused_by_no_failover(kind: str) -> None:
    window = msgspec.structs.replace(CRASH, kind=kind, excuses=FAULTS[kind].excuses, survivor_sent=int(99.5 * SECOND))
    assert not is_excused(acked(99.2, 99.3), window, TWO_SECONDS)


@pytest.mark.parametrize(
    ("attempt", "window"),
    [
        (acked(97.8, 97.9), CRASH),
        (acked(103.1, 103.2), CRASH),
        (acked(99.2, 99.3), msgspec.structs.replace(CRASH, survivor_sent=99_500_000)),
    ],
)
def test_clocks_that_may_be_apart_widen_the_tail_on_every_side(attempt: int, window: FaultWindow) -> None:
    assert not is_excused(attempt, window, TWO_SECONDS)
    assert is_excused(attempt, window, TWO_SECONDS, clock_epsilon_us=SECOND // 4)
