"""What is said about faults before a soak begins, and when it ends early because of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from soak.api.status import SoakStatus
from soak.daemon.fault_controller import (
    check_named,
    ends_before_its_faults,
    needs_power_cuts,
    needs_proxies,
    plan_faults,
)
from soak.daemon.plan import RunPlan
from soak.daemon.stop import reason_to_abort
from soak.errors import UsageError
from soak.faults.schedule import Limits, Schedule
from soak.settings import FaultRule, FaultSettings
from tests.support.statuses import soak_status

PLAN = RunPlan(specs=(), given={"postgres": "postgresql://h/db"}, embedded=("ledger", "redis"))
POSSIBLE = {"redis": {"crash": None, "pause": None, "connection_refused": "there is no proxy"}}


def rules(fault: str, target: str = "redis") -> FaultSettings:
    return FaultSettings(rules=[FaultRule(fault=fault, target=target, every=60.0)])


@pytest.mark.parametrize(
    ("fault", "target", "complaint"),
    [
        ("nonsense", "redis", "faults.rules.0: there is no fault 'nonsense'; 'soak faults' lists them"),
        ("replica_lag", "redis", "replica_lag can happen to postgres-replica, not to redis"),
        ("crash", "ledger", "there is no server ledger in this run"),
        ("crash", "postgres-replica", "there is no server postgres-replica in this run; started are: redis"),
        ("crash", "postgres", "postgres is a server of yours"),
    ],
)
def test_a_rule_that_no_server_can_follow_is_refused_before_any_is_started(
    fault: str, target: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_named(rules(fault, target), PLAN, ())


def test_a_rule_that_names_what_is_not_possible_is_refused_and_a_preset_leaves_it_out() -> None:
    with pytest.raises(UsageError, match=r"faults\.rules\.0: connection_refused cannot be injected: there is no proxy"):
        plan_faults(rules("connection_refused"), POSSIBLE)
    plan = plan_faults(FaultSettings(preset="chaos"), POSSIBLE)
    assert [name for rule in plan.rules for name, _ in rule.faults] == ["crash", "pause"]
    assert plan.lines == ("the preset chaos leaves out connection_refused of redis: there is no proxy",)


def test_an_old_name_of_a_fault_means_the_new_one() -> None:
    with pytest.raises(UsageError, match=r"faults\.rules\.0: connection_refused cannot be injected: there is no proxy"):
        plan_faults(rules("outage"), POSSIBLE)
    assert needs_proxies(rules("outage"))
    given = RunPlan(specs=(), given={"redis": "redis://cache"}, embedded=("ledger",))
    check_named(rules("connection_storm"), given, ["connection_storm"])
    check_named(rules("connection_exhaustion"), given, ["connection_storm"])


def test_a_preset_of_which_nothing_is_possible_is_refused() -> None:
    given = {"pause": "it is not ours", "restart": "it is not ours"}
    with pytest.raises(UsageError, match="the preset gentle has nothing that is possible here"):
        plan_faults(FaultSettings(preset="gentle"), {"redis": given})


def test_why_nothing_of_a_preset_is_possible_is_said_once_and_short() -> None:
    def refusal(preset: str, server: str, reasons: dict[str, str]) -> str:
        with pytest.raises(UsageError) as caught:
            plan_faults(FaultSettings.model_validate({"preset": preset}), {server: reasons})
        return str(caught.value).partition("here: ")[2]

    no_group = "there is no group of this kind; start one with --postgres patroni"
    either = f"{no_group} or --postgres sync-standby"
    groups = {"primary_crash": either, "link_cut": either, "patroni_failover": no_group}
    assert refusal("failover", "postgres", groups) == f"primary_crash and 2 more of postgres: {either}"
    given = {"crash": "to allow it: allow crash", "restart": "to allow it: allow restart"}
    assert refusal("recovery", "redis", given) == "crash and 1 more of redis: to allow it: allow crash"
    assert refusal("failover", "sqlite", {}) == "none of its faults can happen to sqlite"


def test_proxies_and_the_shim_are_there_only_where_something_can_need_them() -> None:
    def needs(settings: FaultSettings) -> tuple[bool, bool]:
        return needs_proxies(settings), needs_power_cuts(settings)

    assert needs(FaultSettings()) == (False, False)
    assert needs(FaultSettings(preset="recovery")) == (False, False)
    assert needs(rules("connection_refused")) == (True, False)
    assert needs(rules("power_cut")) == (False, True)
    assert needs(rules("slow_fsync")) == (False, True)
    assert needs(FaultSettings(preset="chaos")) == (True, True)
    assert needs(FaultSettings(allow_by_hand="all")) == (True, True)


# Ending early ----------------------------------------------------------------------------------------------


def snapshot(**verifier: Any) -> SoakStatus:
    return soak_status(verifier, seed=7, http_address="", children=[])


STUCK = {
    "fault": "crash-1",
    "kind": "crash",
    "server": "redis",
    "store": "redis-list",
    "planned": True,
    "awaits": ["read", "write"],
    "healed_seconds": 61.0,
    "is_failing": True,
}


def test_a_soak_ends_after_so_many_violations_which_is_no_problem_of_its_own() -> None:
    settings = FaultSettings(abort_after_violations=3)
    assert reason_to_abort(snapshot(totals={"violations": 2}), settings) is None
    found = reason_to_abort(snapshot(totals={"violations": 3}), settings)
    assert found is not None
    assert not found.is_problem
    assert reason_to_abort(snapshot(totals={"violations": 3}), FaultSettings()) is None


def test_a_store_that_answers_nobody_long_after_a_fault_ends_the_soak_as_inconclusive() -> None:
    found = reason_to_abort(snapshot(recovering=[STUCK]), FaultSettings())
    assert found is not None
    assert found.is_problem
    assert found.reason == (
        "redis-list answers no reads and writes 61s after crash of redis was healed (faults.recovery_max = 60s)"
    )


@pytest.mark.parametrize(
    "change", [{"healed_seconds": 59.0}, {"healed_seconds": None}, {"is_failing": False}, {"planned": False}]
)
def test_but_not_before_its_time_or_where_nobody_asks_or_nobody_planned_it(change: dict[str, Any]) -> None:
    assert reason_to_abort(snapshot(recovering=[{**STUCK, **change}]), FaultSettings()) is None


def test_a_snapshot_tells_the_next_fault_as_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(snapshot()))["fault_next"] is None


# What `soak run` does by itself ------------------------------------------------------------------------------


def test_by_default_servers_that_were_started_are_broken_and_given_ones_are_not() -> None:
    possible = {"redis": {"crash": None}, "postgres": {"crash": None}}
    plan = plan_faults(FaultSettings(preset="auto"), possible, ("ledger", "redis"))
    assert [rule.target for rule in plan.rules] == ["redis"]
    plan = plan_faults(FaultSettings(preset="auto"), possible, ("ledger",))
    assert plan.rules == ()
    assert plan.lines == ("no faults: servers of yours are broken only with a fault that testbed.allow_faults names",)


def test_whoever_has_rules_gets_those_and_no_others() -> None:
    settings = FaultSettings(preset="auto", rules=[FaultRule(fault="pause", target="redis", every=60.0)])
    plan = plan_faults(settings, POSSIBLE, ("redis",))
    assert [rule.faults for rule in plan.rules] == [(("pause", 1.0),)]


def test_the_time_without_faults_follows_from_the_rules_unless_it_is_set() -> None:
    def healthy(**settings: Any) -> float:
        return plan_faults(FaultSettings(preset="recovery", **settings), POSSIBLE).limits.healthy_min_seconds

    assert healthy() == 30.0
    assert healthy(every=15.0) == pytest.approx(3.75)
    assert healthy(every=15.0, healthy_min=10.0) == 10.0


def test_a_schedule_that_cannot_be_kept_is_said_before_the_run() -> None:
    (line,) = plan_faults(FaultSettings(preset="recovery", every=15.0, healthy_min=28.0), POSSIBLE).lines
    assert "the schedule cannot be kept" in line
    assert "about 50% of them will be skipped; make 'every' longer, or faults.healthy_min shorter" in line
    crash = FaultRule(fault="crash", target="redis", every=5.0, hold=10.0)
    (line,) = plan_faults(FaultSettings(rules=[crash]), POSSIBLE).lines
    assert line.endswith("make 'every' longer, or hold shorter")
    assert plan_faults(FaultSettings(preset="recovery", every=15.0), POSSIBLE).lines == ()


def test_a_run_that_ends_before_its_first_fault_is_said_before_the_run() -> None:
    plan = plan_faults(rules("crash"), POSSIBLE)

    def lines(until: float) -> list[str]:
        def schedule(until_seconds: float) -> Schedule:
            return Schedule(plan.rules, Limits(), seed=1, began_wall_seconds=0.0, until_seconds=until_seconds)

        return ends_before_its_faults(schedule, until)

    expected = (
        "warning: no fault will happen: the run ends after 10s, the first is due after 1m; "
        "give a longer --duration, or let faults happen more often (--fault-every, every=)"
    )
    assert lines(10.0) == [expected]
    assert lines(60.0)
    assert lines(61.0) == []
