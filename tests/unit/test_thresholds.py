"""Thresholds are met, missed, or not measured; the last is never a pass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from soak import configuration
from soak.checker.verdict import Verdict, reach_verdict
from soak.commands.flags import THRESHOLD
from soak.configuration import ConfigurationError
from soak.verifier.result import LatencyResult, RecoveryResult, ThresholdState
from soak.verifier.thresholds import ThresholdInputs, judge
from tests.unit.test_checker_verdict import GOOD


def latency(store: str = "redis-list", *, in_fault: bool = False, p99: float | None = 0.02, errors: int = 0) -> Any:
    return LatencyResult(
        store=store,
        operation="append",
        in_fault=in_fault,
        count=0 if p99 is None else 100 - errors,
        errors=errors,
        p50_seconds=p99,
        p95_seconds=p99,
        p99_seconds=p99,
        max_seconds=p99,
    )


def recovery(read: float | None, write: float | None) -> RecoveryResult:
    return RecoveryResult(
        fault="f1",
        kind="crash",
        server="redis",
        store="redis-list",
        planned=True,
        at_wall_seconds=0.0,
        promised_seconds=2.0,
        point_seconds=0.0,
        is_at_least=False,
        tolerated=0,
        lost=0,
        kept=True,
        read_seconds=read,
        write_seconds=write,
    )


def states(
    limits: dict[str, Any], *, latencies: Any = (), recoveries: Any = (), staleness: Any = None
) -> dict[str, str]:
    limits = configuration.read({"thresholds": limits}, environ={}).settings.thresholds
    measured = ThresholdInputs(latencies, recoveries, staleness or {})
    return {f"{one.store} {one.name}": one.state.value for one in judge(limits, ["redis-list", "postgres"], measured)}


def test_a_limit_is_met_by_what_is_as_large_and_missed_by_what_is_larger() -> None:
    rows = [latency(p99=0.05), latency("postgres", p99=0.051)]
    assert states({"append_p99": "50ms"}, latencies=rows) == {
        "redis-list append_p99": "met",
        "postgres append_p99": "missed",
    }


def test_a_plain_name_is_about_operations_outside_of_faults() -> None:
    rows = [latency(p99=0.01), latency(in_fault=True, p99=4.0)]
    limits = {"append_p99": "50ms", "append_p99_in_fault": "3s"}
    assert states(limits, latencies=rows) == {
        "redis-list append_p99": "met",
        "redis-list append_p99_in_fault": "missed",
    }


def test_a_store_may_have_thresholds_of_its_own() -> None:
    rows = [latency(p99=0.02), latency("postgres", p99=0.02)]
    assert states({"postgres": {"append_p99": "10ms"}}, latencies=rows) == {"postgres append_p99": "missed"}
    both = {"append_p99": "1ms", "postgres": {"append_p99": "50ms"}}
    assert states(both, latencies=rows) == {"redis-list append_p99": "missed", "postgres append_p99": "met"}


@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        ({"search_p99": "1s"}, [latency()]),
        ({"append_p99_in_fault": "1s"}, [latency()]),
        ({"append_p99": "1s"}, [latency(p99=None)]),
        ({"errors": "1%"}, []),
        ({"recovery_time": "10s"}, [latency()]),
        ({"staleness_p99": "10s"}, [latency()]),
        ({"postgres": {"append_p99": "1s"}}, [latency()]),
    ],
)
def test_nothing_is_met_without_samples(limits: dict[str, Any], rows: list[Any]) -> None:
    assert list(states(limits, latencies=rows).values()) == ["no samples"]


def test_errors_are_a_share_of_all_that_was_asked() -> None:
    assert states({"errors": "1%"}, latencies=[latency(errors=1)]) == {"redis-list errors": "met"}
    assert states({"errors": "1%"}, latencies=[latency(errors=2)]) == {"redis-list errors": "missed"}


def test_a_recovery_is_over_when_reads_and_writes_are_answered() -> None:
    assert list(states({"recovery_time": "10s"}, recoveries=[recovery(3.0, 9.0)]).values()) == ["met"]
    assert list(states({"recovery_time": "10s"}, recoveries=[recovery(3.0, 11.0)]).values()) == ["missed"]
    assert list(states({"recovery_time": "10s"}, recoveries=[recovery(3.0, None)]).values()) == ["no samples"]
    both = [recovery(3.0, None), recovery(11.0, 3.0)]
    assert list(states({"recovery_time": "10s"}, recoveries=both).values()) == ["missed"]


def test_staleness_has_thresholds_too() -> None:
    behind = {"redis-list": {"p99": 0.3, "max": 5.0}}
    limits = {"staleness_p99": "500ms", "staleness_max": "4s"}
    assert list(states(limits, staleness=behind).values()) == ["met", "missed"]


def test_a_line_says_what_was_measured_and_what_is_allowed() -> None:
    limits = configuration.read({"thresholds": {"append_p99": "50ms", "errors": "1%"}}, environ={}).settings.thresholds
    found = judge(limits, ["redis-list"], ThresholdInputs([latency(p99=0.0634, errors=3)], [], {}))
    assert [one.line for one in found] == [
        "redis-list append_p99: 63.4ms, at most 50ms",
        "redis-list errors: 3%, at most 1%",
    ]
    assert [one.state for one in found] == [ThresholdState.MISSED, ThresholdState.MISSED]


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ({"apend_p99": "50ms"}, "thresholds.apend_p99 = 50ms: names no threshold; did you mean append_p99?"),
        ({"append": "50ms"}, "thresholds.append = 50ms: names no threshold; did you mean append_p99?"),
        (
            {"append_p99": "50 fortnights"},
            "thresholds.append_p99 = 50 fortnights: is no time; write one with its unit, such as 50ms or 2s",
        ),
        (
            {"append_p99": 50},
            "thresholds.append_p99 = 50: is no time; write one with its unit, such as 50ms or 2s",
        ),
        ({"errors": "50ms"}, "thresholds.errors = 50ms: is no share; write one such as 1% or 0.5%"),
        ({"errors": "101%"}, "thresholds.errors = 101%: is no share; write one such as 1% or 0.5%"),
        (
            {"redis-list": {"read_p90": "{x}"}},
            "thresholds.redis-list.read_p90 = {x}: names no threshold; did you mean read_p99?",
        ),
    ],
)
def test_a_wrong_threshold_is_one_line(limits: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        configuration.read({"thresholds": limits}, places={"thresholds": "--threshold"}, environ={})
    assert error.value.lines == (f"--threshold: {line}",)


def test_flags_file_and_environment_set_the_same_thresholds(tmp_path: Any) -> None:
    file = tmp_path / "soak.toml"
    file.write_text('[thresholds]\nappend_p99 = "50ms"\nread_max = "1s"\n[thresholds.redis-list]\nerrors = "0.5%"\n')
    environ = {"SOAK_THRESHOLDS__READ_MAX": "2s", "SOAK_THRESHOLDS__REDIS_LIST__READ_P50": "3ms"}
    flags = {THRESHOLD.key: THRESHOLD.value_of(["append_p99=0.06s", "my.module:Memory.forget_p95=1m"])}
    found = configuration.read(flags, config=file, environ=environ).settings.thresholds
    assert found == {
        "append_p99": "0.06s",
        "read_max": "2s",
        "redis-list": {"errors": "0.5%", "read_p50": "3ms"},
        "my.module:Memory": {"forget_p95": "1m"},
    }


def test_children_read_the_thresholds_of_their_daemon_however_small_or_exact_they_are() -> None:
    limits = {"append_p99": "0.001ms", "errors": "12.3456%", "my.module:Memory": {"forget_p95": " 1h30m "}}
    ours = configuration.read({"thresholds": limits}, environ={}).settings
    assert configuration.read(environ=configuration.as_environment(ours)).settings.thresholds == ours.thresholds


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"thresholds_missed": ["m"]}, Verdict.THRESHOLD),
        ({"thresholds_without_samples": ["n"]}, Verdict.INCONCLUSIVE),
        ({"thresholds_missed": ["m"], "thresholds_without_samples": ["n"]}, Verdict.THRESHOLD),
        ({"thresholds_missed": ["m"], "unverifiable": 1}, Verdict.INCONCLUSIVE),
        ({"thresholds_missed": ["m"], "violations": 1}, Verdict.VIOLATION),
    ],
)
def test_a_missed_threshold_outweighs_a_pass_only(changes: dict[str, Any], verdict: Verdict) -> None:
    found, reasons = reach_verdict(msgspec.structs.replace(GOOD, **changes))
    assert found is verdict
    assert reasons
    if "thresholds_missed" in changes:
        assert "threshold missed: m" in reasons
