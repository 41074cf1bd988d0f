"""Published results: what is read from a soak, and when it agrees with what was published."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest

from soak.cli import parse
from soak.commands.reproduce import as_json, exit_code, markdown, report_lines
from soak.errors import ExitCode
from soak.scenarios.reproductions.catalogue import ALL
from soak.scenarios.reproductions.library import LibraryReproduction
from soak.scenarios.reproductions.scenario import LOAD, UNDER_WAY_SECONDS, UNDER_WAY_SHARE_MAX, Reproduced
from soak.verifier.result import RecoveryResult, Result, StoreResult
from tests.support.paths import ROOT


def answer(*, lost: int, verdict: str = "violation", span: float = 8.0, unacknowledged: int = 0) -> dict[str, Any]:
    recovery = {
        "store": "redis-list",
        "lost": lost,
        "tolerated": 0,
        "unacknowledged": unacknowledged,
        "acknowledged_during": 90,
        "lost_during": lost - 6,
        "point_seconds": 0.5,
        "after_seconds": 9.0,
        "span_seconds": span,
    }
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


@pytest.mark.parametrize(("lost", "span", "agrees", "words"), [
    (2, 0.02, True, "2 of 200 lost (1%), acknowledged within 0.02 s"),
    (2, 1.5, False, "2 of 200 lost (1%), up to 9.5 s"),
    (12, 0.9, False, "12 of 200 lost (6%), acknowledged within 0.90 s"),
])  # fmt: skip
def test_a_few_that_were_under_way_together_are_no_loss_of_a_guard_however_late_the_promotion(
    lost: int, span: float, agrees: bool, words: str
) -> None:
    scenario = ALL["sentinel-min-replicas-all"]
    found = scenario._read(answer(lost=lost, span=span))
    assert (found.agrees_with(scenario.expectation), found.measured) == (agrees, words)


def test_what_was_read_and_never_acknowledged_is_told_apart() -> None:
    scenario = ALL["sentinel-wait-all"]
    found = scenario._read(answer(lost=5, unacknowledged=5))
    assert found.measured == "0 of 200 lost in 1 fault; 5 were read, not acknowledged, and are gone"
    assert found.agrees_with(scenario.expectation)
    assert not scenario._read(answer(lost=6, unacknowledged=5)).agrees_with(scenario.expectation)


def test_a_result_may_be_of_what_was_acknowledged_during_the_fault() -> None:
    found = ALL["sentinel-minority-partition"]._read(answer(lost=96))
    assert found.measured == "90 of the 90 acknowledged during the fault lost (100%), up to 9.5 s"


def test_what_is_read_is_in_the_result_of_a_soak() -> None:
    assert {"by_store", "recoveries", "seed", "violations_by"} <= {*Result.__struct_fields__}
    assert {"store", "acknowledged"} <= {*StoreResult.__struct_fields__}
    assert {*answer(lost=0)["result"]["recoveries"][0]} <= {*RecoveryResult.__struct_fields__}


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
    lines = report_lines([scenario], [found], 61.0)
    assert lines[-1] == "1 of 1 as published; 61 s"
    assert "the last 10 s" in lines[1]
    assert f"  {scenario.command}" in lines
    (row,) = markdown([scenario], [found])[2:]
    assert "redis/redis#6062" in row
    assert "| the last 10 s |" in row
    assert "`soak reproduce sentinel-failover --seed 7`" in row
    told: Any = as_json([scenario], [found])
    assert (told["results"][0]["as_published"], told["results"][0]["lost"]) == (True, 96)


def test_the_page_has_each_result_with_its_number() -> None:
    page = (ROOT / "docs" / "published-results.md").read_text().splitlines()
    for name, one in ALL.items():
        published = one.expectation
        (row,) = [line for line in page if re.search(rf"\| `soak reproduce {name}[ `]", line)]
        assert row.startswith(f"| {published.claim} | {published.source} | {published.number} | ")
    assert len([line for line in page if "| `soak reproduce" in line]) == len(ALL)


def test_the_page_says_how_long_the_soaks_are_and_what_a_guard_may_lose() -> None:
    page = " ".join((ROOT / "docs" / "published-results.md").read_text().split())
    seconds = [one.soak_seconds for one in ALL.values() if not isinstance(one, LibraryReproduction)]
    assert f"a soak of {min(seconds)} to {max(seconds)} seconds" in page
    assert f"within {UNDER_WAY_SECONDS:.0f} s, and is at most {UNDER_WAY_SHARE_MAX:.0%} of" in page


@pytest.mark.parametrize("name", ALL)
def test_the_command_of_each_is_one_that_soak_understands(name: str) -> None:
    words = shlex.split(ALL[name].command)[1:]
    assert parse(words).execute
    assert ("--seed", "7") in pairwise(words)
    if words[1] == "check":
        assert {*LOAD} <= {*words}
    assert parse(shlex.split(ALL[name].again)[1:]).execute
