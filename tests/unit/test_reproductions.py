"""Published results: what is read from a soak, and when it agrees with what was published."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from soak.cli import parse
from soak.commands.reproduce import as_json, exit_code, markdown, report_lines
from soak.errors import ExitCode
from soak.scenarios.reproductions import ALL, Reproduced
from soak.verifier.result import RecoveryResult, Result, StoreResult


def answer(*, lost: int, verdict: str = "violation") -> dict[str, Any]:
    recovery = {"store": "redis-list", "lost": lost, "tolerated": 0, "point_seconds": 0.5, "after_seconds": 9.0}
    return {
        "exit_code": ExitCode.VIOLATION if lost else ExitCode.PASS,
        "verdict": verdict,
        "result": {
            "seed": "7",
            "recoveries": [recovery, {**recovery, "store": "postgres", "lost": 99}],
            "by_store": [{"store": "redis-list", "acknowledged": 200}],
        },
    }


@pytest.mark.parametrize(("name", "lost", "agrees"), [
    ("sentinel-failover", 96, True),
    ("sentinel-failover", 0, False),
    ("sentinel-coordinated-failover", 0, True),
    ("sentinel-coordinated-failover", 1, False),
])  # fmt: skip
def test_a_result_agrees_if_it_loses_where_it_was_published_to(name: str, lost: int, agrees: bool) -> None:
    scenario = ALL[name]
    found = scenario._read(answer(lost=lost))
    assert (found.lost, found.acknowledged, found.faults, found.seed) == (lost, 200, 1, "7")
    assert found.agrees_with(scenario.expectation) is agrees
    assert exit_code([scenario], [found]) == (ExitCode.PASS if agrees else ExitCode.VIOLATION)


def test_what_is_counted_may_be_another_kind_of_violation() -> None:
    scenario = ALL["cluster-shared-client"]
    told = answer(lost=5)
    store = scenario.stores[0]
    told["result"]["recoveries"][0]["store"] = told["result"]["by_store"][0]["store"] = store
    told["result"]["violations_by"] = [
        {"store": store, "kind": "duplicated", "count": 14},
        {"store": store, "kind": "lost", "count": 5},
        {"store": "another", "kind": "duplicated", "count": 3},
    ]
    found = scenario._read(told)
    assert (found.lost, found.measured) == (14, "14 of 200 duplicated")
    assert found.agrees_with(scenario.expectation)


def test_what_is_read_is_in_the_result_of_a_soak() -> None:
    assert {"by_store", "recoveries", "seed", "violations_by"} <= {*Result.__struct_fields__}
    assert {"store", "acknowledged"} <= {*StoreResult.__struct_fields__}
    assert {"store", "lost", "tolerated", "point_seconds", "after_seconds"} <= {*RecoveryResult.__struct_fields__}


def test_what_could_not_be_shown_agrees_with_nothing() -> None:
    scenario = ALL["sentinel-failover"]
    inconclusive = scenario._read({"exit_code": 4, "verdict": "inconclusive", "reasons": ["too little was verified"]})
    assert inconclusive.measured == "not shown: too little was verified"
    assert not inconclusive.agrees_with(scenario.expectation)
    assert exit_code([scenario], [inconclusive]) == ExitCode.INCONCLUSIVE
    without = {**answer(lost=0), "result": {"recoveries": [], "by_store": [], "seed": "7"}}
    assert scenario._read(without).reason == "no fault was measured"


def test_a_result_that_differs_outweighs_one_that_could_not_be_shown() -> None:
    scenarios = [ALL["sentinel-failover"], ALL["cluster-failover"]]
    results = [scenarios[0].not_made("no server"), Reproduced(name="cluster-failover", acknowledged=9, lost=1)]
    assert exit_code(scenarios, results) == ExitCode.VIOLATION


def test_the_table_says_what_was_published_and_what_was_measured() -> None:
    scenario = ALL["sentinel-failover"]
    found = scenario._read(answer(lost=96))
    assert found.measured == "96 of 200 lost (48%), up to 9.5 s"
    assert report_lines([scenario], [found], 61.0)[-1] == "1 of 1 as published; 61 s"
    (row,) = markdown([scenario], [found])[2:]
    assert "redis/redis#6062" in row
    assert "`soak reproduce sentinel-failover`" in row
    told: Any = as_json([scenario], [found])
    assert (told["results"][0]["as_published"], told["results"][0]["lost"]) == (True, 96)


@pytest.mark.parametrize("name", ALL)
def test_the_command_of_each_is_one_that_soak_understands(name: str) -> None:
    words = shlex.split(ALL[name].command)[1:]
    assert parse(words).execute
