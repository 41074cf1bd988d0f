"""Who answers: a server that is another process than before has restarted, and when; and what explains it."""

from __future__ import annotations

import msgspec
import pytest

from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.telemetry import Identity, ServerRestart, ServerSample, identity_of, restart_between, unexplained

SECOND = 1_000_000
BEFORE = Identity(process="a")
GONE = 100 * SECOND
POSTGRES = {"postmaster_started": "1.5", "checkpointer_started": "1.6", "uptime_seconds": "50.0"}


def redis(run_id: str, at: float, uptime: int, **configuration: str) -> ServerSample:
    telemetry = {"run_id": run_id, "uptime_in_seconds": str(uptime)}
    return ServerSample(server="redis", at=int(at * SECOND), configuration=configuration, telemetry=telemetry)


def window(kind: str, started: float, ended: float | None, excuses: Excuse = Excuse.CRASH, **other: str) -> FaultWindow:
    return FaultWindow(
        fault=kind,
        kind=kind,
        target="redis",
        excuses=excuses,
        promotes=Promotion.NONE,
        started=int(started * SECOND),
        ended=None if ended is None else int(ended * SECOND),
        telemetry_after=other,
    )


def restarted() -> ServerRestart:
    restart = restart_between(BEFORE, GONE, redis("b", 103.0, 2))
    assert restart is not None
    return restart


def test_a_server_that_is_the_same_has_not_restarted() -> None:
    assert restart_between(BEFORE, GONE, redis("a", 103.0, 900)) is None
    assert restart_between(BEFORE, GONE, ServerSample(server="redis", at=103 * SECOND)) is None


def test_it_was_gone_after_its_last_sign_and_back_when_the_new_one_began() -> None:
    restart = restarted()
    assert (restart.gone, restart.back) == (GONE, 102 * SECOND)
    assert (restart.kind, restart.excuses) == ("crash", Excuse.CRASH)
    for uptime in (0, 1):
        just_now = restart_between(BEFORE, GONE, redis("b", 103.0, uptime))
        assert just_now is not None
        assert just_now.back == 103 * SECOND, "by whole seconds that is the latest it can have been"


def test_the_same_restart_has_the_same_name_whoever_notices_it() -> None:
    later = restart_between(BEFORE, GONE + SECOND, redis("b", 109.0, 7))
    assert later is not None
    assert later.fault == restarted().fault
    other = restart_between(BEFORE, GONE, redis("c", 103.0, 1))
    assert other is not None
    assert other.fault != restarted().fault


def test_what_is_older_than_the_last_sign_of_the_one_before_is_another_server() -> None:
    restart = restart_between(BEFORE, GONE, redis("b", 103.0, 900))
    assert restart is not None
    assert (restart.kind, restart.excuses, restart.gone, restart.back) == (
        "failover",
        Excuse.FAILOVER,
        GONE,
        103 * SECOND,
    )


@pytest.mark.parametrize(
    ("now", "is_another"),
    [
        (POSTGRES, False),
        ({**POSTGRES, "postmaster_started": "2.5"}, True),
        ({**POSTGRES, "checkpointer_started": "2.6"}, True),
        ({"postmaster_started": "1.5"}, False),
    ],
)
def test_a_postgres_is_another_also_where_only_its_first_process_lived_on(
    now: dict[str, str], is_another: bool
) -> None:
    before, after = identity_of(POSTGRES), identity_of(now)
    assert before is not None
    assert after is not None
    assert after.is_another_than(before) is is_another


def test_how_long_a_postgres_has_been_there_is_told_by_the_youngest_of_its_lives() -> None:
    before = identity_of(POSTGRES)
    assert before is not None
    now = {**POSTGRES, "checkpointer_started": "2.6", "checkpointer_uptime_seconds": "0.75"}
    restart = restart_between(before, GONE, ServerSample(server="postgres", at=102 * SECOND, telemetry=now))
    assert restart is not None
    assert restart.back == 101_250_000


def test_a_restart_that_nobody_announced_is_not_explained() -> None:
    assert unexplained(restarted(), []) == restarted()
    elsewhere = msgspec.structs.replace(window("crash", 99.0, None), target="postgres")
    assert unexplained(restarted(), [elsewhere]) == restarted()


@pytest.mark.parametrize("ended", [None, 100.5, 103.0])
@pytest.mark.parametrize("kind", ["crash", "restart", "upgrade"])
def test_a_fault_of_ours_explains_it(kind: str, ended: float | None) -> None:
    assert unexplained(restarted(), [window(kind, 99.0, ended)]) is None


def test_a_fault_that_was_over_before_or_began_after_it_explains_nothing() -> None:
    assert unexplained(restarted(), [window("crash", 90.0, 99.0), window("crash", 102.5, None)]) == restarted()


def test_a_fault_during_which_the_server_serves_explains_no_restart() -> None:
    pause = window("pause", 99.0, None, Excuse.NOTHING)
    syncs_fail = msgspec.structs.replace(window("fsync_error", 99.0, None, Excuse.POWER), serves=True)
    assert unexplained(restarted(), [pause, syncs_fail]) == restarted()


def test_what_restarts_again_after_a_fault_has_ended_was_gone_since_then() -> None:
    assert unexplained(restarted(), [window("crash", 99.0, 101.0, run_id="b")]) is None
    left = unexplained(restarted(), [window("crash", 99.0, 101.0, run_id="between")])
    assert left is not None
    assert (left.gone, left.back) == (101 * SECOND, 102 * SECOND)


@pytest.mark.parametrize("planned", [True, False])
def test_a_fault_that_promotes_nobody_does_not_explain_that_another_node_of_a_group_answers(planned: bool) -> None:
    replaced = restart_between(BEFORE, GONE, redis("b", 103.0, 900, topology="sentinel"))
    assert replaced is not None
    died = msgspec.structs.replace(window("crash", 99.0, None), planned=planned)
    assert unexplained(replaced, [died]) == replaced
    failover = window("failover", 99.0, None, Excuse.FAILOVER)
    failover.promotes = Promotion.BESIDE_THE_OLD
    assert unexplained(replaced, [died, failover]) is None
    # One that is no group, and says it is older than it can be, goes by a clock that was set.
    alone = restart_between(BEFORE, GONE, redis("b", 103.0, 900))
    assert alone is not None
    assert unexplained(alone, [died]) is None


def test_a_crash_explains_that_a_node_of_a_group_restarted() -> None:
    restart = restart_between(BEFORE, GONE, redis("b", 103.0, 2, topology="cluster"))
    assert restart is not None
    assert unexplained(restart, [window("crash", 99.0, None)]) is None
