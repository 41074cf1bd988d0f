"""Every query of every dashboard, on a real Prometheus: with a soak that has seen everything, and with none at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.checking import RunningCheck, checking, child
from tests.support.grafana_queries import (
    INTERVAL_SECONDS,
    Asked,
    dashboards,
    label_values,
    metrics,
    panels,
    queries,
    substituted,
    variables,
)
from tests.support.pages import blocks
from tests.support.paths import ROOT
from tests.support.prometheus_servers import Prometheus, configured_prometheus

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

HOUR_SECONDS = 3600.0
PATIENCE_SECONDS = 120.0
OVERWRITING = "examples.overwriting_memory:OverwritingMemory"
STORES = ("redis-list", "postgres-replica", OVERWRITING)
SERVERS = ("redis", "postgres", "postgres-replica")
ALERT = {"alert": "SoakIsThere", "expr": "soak_build_info > 0", "labels": {"severity": "info"}}
CLEAN, NO_DATA = 0, -1
SCRAPES = {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"}
"""A scrape that is late on a busy machine counts as none, and so it has more time than one of an idle machine needs."""
LIGHT = (
    *("--users", "12", "--set", "load.think=250ms", "--set", "load.shared_share=0.8", "--set", "load.spawn_rate=100"),
    *("--set", "verifier.hot_interval=500ms", "--set", "verifier.settle=1s", "--set", "supervision.backoff=200ms"),
)

# What has to have happened before every panel can have something to show.
SEEN = (
    "sum(soak_consistency_violations_total) > 0",
    'sum(soak_faults_injected_total{server="redis", kind="crash"}) > 0',
    'sum(soak_recovery_point_seconds_count{server="redis", kind="crash"}) > 0',
    'sum(soak_recovery_time_seconds_count{server="redis", kind="crash", operation="read"}) > 0',
    "sum(max_over_time(soak_fault_active[1h])) > 0",
    "max(soak_verifier_restarts_total) > 0",
    'count(soak_server_replication_lag_bytes{server="postgres"}) > 0',
    "count(soak_server_memory_used_bytes) > 0",
    "min(soak_verified_messages_total) > 0",
    "min(soak_server_answers) > 0",
    'count(ALERTS{alertname="SoakIsThere"}) > 0',
)


@contextlib.contextmanager
def scraping(*addresses: str, rules: Path | None = None) -> Iterator[Prometheus]:
    config = {
        "global": SCRAPES,
        "rule_files": [str(rules)] if rules is not None else [],
        "scrape_configs": [{"job_name": "soak", "static_configs": [{"targets": list(addresses)}]}],
    }
    with configured_prometheus(config) as server:
        yield server


@contextlib.contextmanager
def a_soak_with_everything() -> Iterator[RunningCheck]:
    """Run on every kind of server, with a memory that loses messages."""
    words = [word for store in STORES for word in ("--store", store)]
    with checking(*words, "--duration", "20m", "--set", "verifier.canary=10s", *LIGHT) as check:
        yield check


def address_of(check: RunningCheck) -> str:
    info = json.loads((check.data_dir / "run.json").read_text())
    return str(info["http_address"]).removeprefix("http://")


def crash(check: RunningCheck) -> None:
    command = [sys.executable, "-m", "soak", "inject", "crash", "--target", "redis", "--hold", "8s"]
    told = subprocess.run(
        [*command, "--data-dir", str(check.data_dir)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "healed" in told.stdout, told.stdout + told.stderr


def unanswered_at_last(
    server: Prometheus, asked: list[Asked], began: float, chosen: dict[str, list[str]] | None = None
) -> list[str]:
    """Return the queries that find nothing, also when they are asked again: a scrape may have failed just before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (missing := unanswered(server, asked, began, chosen)) and time.monotonic() < deadline:
        asked = missing
        time.sleep(1.0)
    return [str(one) for one in missing]


def unanswered(
    server: Prometheus, asked: list[Asked], began: float, chosen: dict[str, list[str]] | None = None
) -> list[Asked]:
    """Return the queries that find nothing since a time, in steps that end now."""
    ended = time.time()
    steps = math.ceil((ended - began) / INTERVAL_SECONDS)
    since = ended - steps * INTERVAL_SECONDS
    missing = []
    for one in asked:
        expr = substituted(one.expr, range_seconds=ended - since, chosen=chosen)
        found: list[Any] = (
            [*server.query(expr, ended)] if one.instant else [*server.query_range(expr, since, ended, INTERVAL_SECONDS)]
        )
        if not found:
            missing.append(one)
    return missing


def types_of(address: str) -> dict[str, str]:
    """Return the type of everything that is exposed, by the name that a query uses."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {sample.name: family.type for family in families for sample in family.samples}


def test_every_query_finds_something_in_a_soak_that_has_seen_everything(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps({"groups": [{"name": "there", "rules": [ALERT]}]}))
    with a_soak_with_everything() as check:
        check.until_verified(20)
        address = address_of(check)
        began = time.time()
        with scraping(address, rules=rules) as server:
            server.until("count(soak_server_answers == 1) == 3", seconds=PATIENCE_SECONDS)
            crash(check)
            os.kill(child(check.status(), "verifier")["pid"], signal.SIGKILL)
            for condition in SEEN:
                server.until(condition, seconds=PATIENCE_SECONDS)
            every = list(queries())
            assert len(every) > 150
            assert unanswered_at_last(server, every, began) == []
            one = {"job": ["soak"], "instance": [address], "store": [OVERWRITING], "server": ["redis"]}
            overview = [asked for asked in every if asked.dashboard == "overview"]
            assert unanswered_at_last(server, overview, began, one) == []
            unknown = Asked("planted", "flaw", 'soak_attempts_total{store="nobody knows it"}')
            assert unanswered(server, [unknown], began) == [unknown]
            check_documented(server)
            check_variables(server, address)
            check_state_of_tiles(server)
            check_types(types_of(address), every)


def check_documented(server: Prometheus) -> None:
    """See that every query of the documentation is answered with a number."""
    written = [line for _, block in blocks("promql") for line in block.splitlines()]
    assert len(written) >= 4
    for expr in written:
        server.until(expr, lambda found: any(one.value > 0 for one in found), PATIENCE_SECONDS)


def check_variables(server: Prometheus, address: str) -> None:
    """See that what can be chosen is what there is."""
    chosen = variables(dashboards()["store"])
    there = {"job": {"soak"}, "instance": {address}, "store": set(STORES), "server": set(SERVERS)}
    for name, expected in there.items():
        selector, label = label_values(chosen[name])
        found = server.until(substituted(selector, range_seconds=HOUR_SECONDS), seconds=PATIENCE_SECONDS)
        assert {one.labels[label] for one in found} == expected


def check_state_of_tiles(server: Prometheus) -> None:
    """See that what lost messages is not called clean, and that what is there is not called absent."""
    for panel in panels(dashboards()["overview"]):
        if panel["type"] == "stat":
            expr = substituted(panel["targets"][0]["expr"], range_seconds=HOUR_SECONDS)
            [told] = server.until(expr, lambda found: NO_DATA not in [one.value for one in found], PATIENCE_SECONDS)
            if panel["title"] == "Is it clean?":
                words = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
                assert words[f"{told.value:g}"] == {"text": "violation", "color": "red"}


def check_types(types: dict[str, str], every: list[Asked]) -> None:
    """See that every metric that is asked for is exposed, and that only counters are counted."""
    named = set().union(*(metrics(asked.expr) for asked in every)) - {"ALERTS"}
    assert named - types.keys() == set()
    for asked in every:
        for name in metrics(asked.expr):
            counted = f"rate({name}{{" in asked.expr or f"increase({name}{{" in asked.expr
            assert not counted or types[name] in {"counter", "histogram"}, asked


def test_without_any_soak_every_tile_says_that_there_is_no_data() -> None:
    with scraping() as server:
        for dashboard in dashboards().values():
            for panel in panels(dashboard):
                if panel["type"] == "stat":
                    [target] = panel["targets"]
                    found = server.query(substituted(target["expr"], range_seconds=HOUR_SECONDS))
                    assert [one.value for one in found] == [NO_DATA], panel["title"]


def test_a_daemon_that_is_gone_is_not_shown_as_it_was() -> None:
    with checking("--store", "redis-list", "--duration", "20m", "--set", "verifier.canary=2s", *LIGHT) as check:
        check.until_verified(20)
        clean = next(one for one in panels(dashboards()["overview"]) if one["title"] == "Is it clean?")
        expr = substituted(clean["targets"][0]["expr"], range_seconds=HOUR_SECONDS)
        with scraping(address_of(check)) as server:
            server.until(expr, lambda found: [one.value for one in found] == [CLEAN], PATIENCE_SECONDS)
            check.process.kill()
            server.until(expr, lambda found: [one.value for one in found] == [NO_DATA], PATIENCE_SECONDS)
            [told] = server.query(expr)
            assert told.labels.keys() == {"instance"}
