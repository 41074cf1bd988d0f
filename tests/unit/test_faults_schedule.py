"""The plan of faults: within its limits whatever the rules, and the same for the same seed."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak import cron, quiet_hours
from soak.faults import schedule
from soak.faults.presets import Preset, rules_of
from soak.faults.schedule import Limits, Planned, Rule, Schedule
from soak.servers.kinds import group_name

BEGAN = dt.datetime(2026, 11, 16, 20, 0, tzinfo=dt.UTC).timestamp()
LOOKED_AT = 60
TARGETS = ("redis", "postgres", "postgres-replica")


def utc(wall_seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(wall_seconds, dt.UTC)


RULES = st.lists(
    st.builds(
        lambda names, target, every, by_clock, jitter, hold, in_turn: Rule(
            faults=tuple((name, 1.0) for name in names),
            target=target,
            every_seconds=None if by_clock else every,
            cron=cron.parse("*/7 * * * *") if by_clock else None,
            jitter_seconds=jitter * every,
            hold_seconds=hold,
            in_turn=in_turn and not by_clock,
        ),
        st.lists(st.sampled_from(["crash", "pause", "restart"]), min_size=1, max_size=3, unique=True),
        st.sampled_from(TARGETS),
        st.floats(5.0, 4000.0),
        st.booleans(),
        st.floats(0.0, 1.0),
        st.floats(0.0, 90.0),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
LIMITS = st.builds(
    lambda quiet, most, healthy: Limits(
        quiet_hours=tuple(map(quiet_hours.parse, quiet)), concurrent_max=most, healthy_min_seconds=healthy
    ),
    st.lists(st.sampled_from(["22:00-06:00", "12:15-12:45", "20:30-20:31"]), max_size=2, unique=True),
    st.integers(1, 3),
    st.floats(0.0, 120.0),
)


def plan(rules: list[Rule] | tuple[Rule, ...], limits: Limits, seed: int = 1, since: float = 0.0) -> list[Planned]:
    schedule = Schedule(rules, limits, seed=seed, began_wall_seconds=BEGAN, since_seconds=since, local=utc)
    return list(itertools.islice(schedule.actions(), LOOKED_AT))


@given(RULES, LIMITS, st.integers(0, 2**62))
@settings(deadline=None)
def test_the_same_seed_plans_the_same(rules: list[Rule], limits: Limits, seed: int) -> None:
    assert plan(rules, limits, seed) == plan(rules, limits, seed)


@given(RULES, LIMITS)
@settings(deadline=None)
def test_nothing_ever_happens_in_quiet_hours(rules: list[Rule], limits: Limits) -> None:
    for action in plan(rules, limits):
        second = 0.0
        while second <= action.hold_seconds:
            moment = utc(BEGAN + action.offset_seconds + second)
            assert not any(hours.covers(moment) for hours in limits.quiet_hours)
            second += 15.0


@given(RULES, LIMITS)
@settings(deadline=None)
def test_never_more_at_once_than_allowed_and_never_two_on_servers_that_belong_together(
    rules: list[Rule], limits: Limits
) -> None:
    actions = plan(rules, limits)
    for number, action in enumerate(actions):
        start = action.offset_seconds
        active = [one for one in actions[:number] if one.offset_seconds + one.hold_seconds > start]
        assert len(active) < limits.concurrent_max
        assert group_name(action.target) not in {group_name(one.target) for one in active}
        assert not number or start >= actions[number - 1].offset_seconds


@given(RULES, LIMITS)
@settings(deadline=None)
def test_between_the_end_of_all_faults_and_the_next_there_is_health(rules: list[Rule], limits: Limits) -> None:
    actions = plan(rules, limits)
    for number, action in enumerate(actions[1:], 1):
        ends = [one.offset_seconds + one.hold_seconds for one in actions[:number]]
        is_calm = max(ends) <= action.offset_seconds
        assert not is_calm or action.offset_seconds >= max(ends) + limits.healthy_min_seconds - 1e-6


@given(RULES, st.floats(0.0, 10_000.0))
@settings(deadline=None)
def test_a_plan_taken_up_later_holds_what_was_still_to_come(rules: list[Rule], since: float) -> None:
    limits = Limits(concurrent_max=16, healthy_min_seconds=0.0)
    alone = [without_waiting(rule) for rule in rules[:1]]
    whole = [one for one in plan(alone, limits) if one.offset_seconds >= since]
    later = plan(alone, limits, since=since)
    assert later[: len(whole)] == whole


def without_waiting(rule: Rule) -> Rule:
    """Return the rule without a hold: then nothing waits, and each occurrence stands for itself."""
    return Rule(
        faults=rule.faults,
        target=rule.target,
        every_seconds=rule.every_seconds,
        cron=rule.cron,
        jitter_seconds=0.0,
        hold_seconds=0.0,
        in_turn=rule.in_turn,
    )


def test_another_seed_plans_something_else() -> None:
    rules = (Rule(faults=(("crash", 1.0), ("pause", 1.0)), target="redis", every_seconds=60, jitter_seconds=30),)
    assert plan(rules, Limits(), 1) != plan(rules, Limits(), 2)


def test_weights_are_roughly_kept() -> None:
    rules = (Rule(faults=(("crash", 3.0), ("pause", 1.0)), target="redis", every_seconds=100, hold_seconds=1.0),)
    schedule = Schedule(rules, Limits(), seed=5, began_wall_seconds=BEGAN, local=utc)
    counts = Counter(action.fault for action in itertools.islice(schedule.actions(), 2000))
    assert 2.5 < counts["crash"] / counts["pause"] < 3.6


def test_rules_that_fall_due_together_take_turns_and_none_starves() -> None:
    rules = tuple(
        Rule(faults=(("crash", 1.0),), target=target, every_seconds=4.0, hold_seconds=1.0) for target in TARGETS
    )
    actions = plan(rules, Limits(healthy_min_seconds=30.0))
    assert [action.target for action in actions[:6]] == [*TARGETS, *TARGETS]
    assert actions[1].offset_seconds == pytest.approx(4.0 + 1.0 + 30.0)


def test_in_turn_means_one_after_the_other() -> None:
    names = ("restart_from_aof", "restart_from_rdb", "crash")
    rules = (Rule(faults=tuple((name, 1.0) for name in names), target="redis", every_seconds=300, in_turn=True),)
    assert [action.fault for action in plan(rules, Limits())[:6]] == [*names, *names]


@given(RULES, LIMITS, st.floats(0.0, 3000.0))
@settings(deadline=None)
def test_what_is_due_before_the_end_either_happens_or_is_counted(
    rules: list[Rule], limits: Limits, until: float
) -> None:
    every = [rule.every_seconds or 60.0 for rule in rules]
    rules = [
        msgspec.structs.replace(rule, every_seconds=seconds, cron=None, jitter_seconds=0.0)
        for rule, seconds in zip(rules, every, strict=True)
    ]
    limits = msgspec.structs.replace(limits, quiet_hours=())
    schedule = Schedule(rules, limits, seed=1, began_wall_seconds=BEGAN, until_seconds=until, local=utc)
    happened = list(schedule.actions())
    assert all(action.offset_seconds < until for action in happened)
    due = sum(number * seconds < until for seconds in every for number in range(1, 601))
    assert len(happened) + schedule.passed_over + schedule.overdue(until) == due


def test_a_schedule_too_dense_passes_over_what_does_not_fit() -> None:
    rules = (Rule(faults=(("crash", 1.0),), target="redis", every_seconds=10, hold_seconds=15.0),)
    schedule = Schedule(rules, Limits(healthy_min_seconds=5.0), seed=1, began_wall_seconds=BEGAN, until_seconds=101.0)
    assert [action.offset_seconds for action in schedule.actions()] == [10, 30, 50, 70, 90]
    assert (schedule.passed_over, schedule.overdue(101.0)) == (4, 1)


def test_a_rule_that_is_only_ever_quiet_ends_the_plan_instead_of_searching_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "PASSED_OVER_MAX", 1_000)
    rules = (Rule(faults=(("crash", 1.0),), target="redis", cron=cron.parse("0 23 * * *")),)
    assert plan(rules, Limits(quiet_hours=(quiet_hours.parse("22:00-06:00"),))) == []


# Presets ---------------------------------------------------------------------------------------------------

CAN = {
    "redis": dict.fromkeys(("restart", "crash", "pause", "restart_from_aof", "restart_from_rdb", "wiped_volume")),
    "postgres": dict.fromkeys(("restart", "crash", "pause")),
}


def named(preset: Preset) -> dict[str, list[str]]:
    return {rule.target: [name for name, _ in rule.faults] for rule in rules_of(preset, CAN).rules}


def test_recovery_alternates_what_a_server_recovers_from() -> None:
    assert named(Preset.RECOVERY) == {
        "redis": ["restart_from_aof", "restart_from_rdb", "crash"],
        "postgres": ["crash", "restart"],
    }


def test_gentle_breaks_nothing_for_long() -> None:
    assert named(Preset.GENTLE) == {"redis": ["restart", "pause"], "postgres": ["restart", "pause"]}


def test_chaos_is_everything_that_is_possible_but_what_no_contract_excuses() -> None:
    assert named(Preset.CHAOS) == {
        "redis": ["restart", "crash", "pause", "restart_from_aof", "restart_from_rdb"],
        "postgres": ["restart", "crash", "pause"],
    }
    (line,) = rules_of(Preset.CHAOS, CAN).left_out
    assert line == (
        "the preset chaos leaves out wiped_volume of redis: no contract excuses what it takes; a rule may name it"
    )


def test_a_preset_takes_what_is_possible_and_says_what_it_leaves_out() -> None:
    possible = {"redis": {"crash": None, "restart_from_aof": "redis has no append-only file", "restart": None}}
    made = rules_of(Preset.RECOVERY, possible, every_seconds=7.0)
    assert [(rule.faults, rule.every_seconds) for rule in made.rules] == [((("crash", 1.0), ("restart", 1.0)), 7.0)]
    assert made.left_out == ("the preset recovery leaves out restart_from_aof of redis: redis has no append-only file",)


def test_what_a_preset_leaves_out_for_one_reason_is_one_line() -> None:
    can = {"redis": {"primary_crash": "no group", "sentinel_failover": "no group", "primary_restart": "no time"}}
    assert rules_of(Preset.FAILOVER, can).left_out == (
        "the preset failover leaves out primary_crash, sentinel_failover of redis: no group",
        "the preset failover leaves out primary_restart of redis: no time",
    )


def test_a_preset_of_everything_counts_what_it_leaves_out_where_naming_it_would_fill_the_screen() -> None:
    can = {
        "redis": {"crash": None, "wiped_volume": None, "ttl_change": None}
        | {f"of_a_group_{number}": f"reason {number}" for number in range(4)},
        "postgres": {"crash": None, "of_a_group_1": "reason 1"},
    }
    assert rules_of(Preset.CHAOS, can).left_out == (
        "the preset chaos leaves out 4 faults that need other servers ('soak faults --try')",
        "the preset chaos leaves out, unless a rule names it: wiped_volume of redis, ttl_change of redis",
    )


def test_a_preset_leaves_out_what_a_server_does_not_come_back_from() -> None:
    made = rules_of(Preset.CHAOS, {"chroma": {"power_cut": None, "crash": None}, "redis": {"power_cut": None}})
    assert {rule.target: [name for name, _ in rule.faults] for rule in made.rules} == {
        "chroma": ["crash"],
        "redis": ["power_cut"],
    }
    assert made.left_out == (
        (
            "the preset chaos leaves out power_cut of chroma: Chroma does not sync its index files and cannot read its"
            " collections after it; a rule may name it"
        ),
    )


def test_no_preset_has_no_rules() -> None:
    assert rules_of(Preset.NONE, CAN).rules == ()


def test_recovery_begins_soon_and_takes_the_servers_in_turn() -> None:
    made = plan(rules_of(Preset.RECOVERY, CAN).rules, Limits())
    assert made[0].offset_seconds <= 20.0
    assert [one.target for one in made[:4]] == ["redis", "postgres", "redis", "postgres"]
    for before, after in itertools.pairwise(one for one in made if one.target == "redis"):
        assert 90.0 < after.offset_seconds - before.offset_seconds < 150.0
    assert plan(rules_of(Preset.RECOVERY, CAN, 4.0).rules, Limits(healthy_min_seconds=0.1))[0].offset_seconds == 4.0


def test_a_run_that_is_resumed_does_not_begin_its_schedule_anew() -> None:
    rules = rules_of(Preset.RECOVERY, CAN).rules
    limits = Limits(healthy_min_seconds=0.1)
    whole = plan(rules, limits)
    assert plan(rules, limits, since=300.0)[:20] == [one for one in whole if one.offset_seconds >= 300.0][:20]
