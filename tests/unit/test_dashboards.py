"""The dashboards are what their code makes, and keep the rules of Grafana's linter and some of our own.

The linter's rules, by its names: template-datasource, template-job, template-instance, template-on-time-change-reload,
panel-datasource, panel-title-description, panel-units, panel-no-targets, target-rate-interval, target-job,
target-instance, target-counter-agg, uneditable. That each fires is shown on a dashboard that breaks it.
"""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.grafana_queries import dashboards, exclusions, label_values, panels, queries, variables
from tests.support.paths import ROOT

COLUMNS = 24
UNITS = {"none", "short", "s", "bytes", "Bps", "cps", "percentunit"}
RATES = re.compile(r"\b(?:rate|irate|increase)\((\w+)\{[^}]*\}\[([^\]]+)\]")
SELECTORS = re.compile(r"\b((?:soak_\w+|ALERTS))(\{[^}]*\})?(\[[^\]]+\])?")
COUNTERS = ("_total", "_bucket", "_sum", "_count")

Dashboard = dict[str, Any]


# The rules ---------------------------------------------------------------------------------------------------


def broken_rules(dashboard: Dashboard) -> set[str]:
    """Return the names of the rules that a dashboard breaks, each with the panel, as `rule: panel`."""
    return {
        *_rules_of_the_whole(dashboard),
        *(f"{rule}: {panel['title']}" for panel in panels(dashboard) for rule in _rules_of_panel(panel)),
    }


def _rules_of_the_whole(dashboard: Dashboard) -> set[str]:
    chosen = variables(dashboard)
    source = chosen.get("datasource", {})
    broken = set()
    if (source.get("type"), source.get("query"), source.get("label")) != ("datasource", "prometheus", "Data source"):
        broken.add("template-datasource-rule")
    for name in ("job", "instance"):
        one = chosen.get(name, {})
        wanted = {"type": "query", "multi": True, "allValue": ".+", "includeAll": True, "label": name.title()}
        if any(one.get(key) != value for key, value in wanted.items()):
            broken.add(f"template-{name}-rule")
    for one in chosen.values():
        if one["type"] == "query" and one.get("refresh") != 2:
            broken.add("template-on-time-change-reload-rule")
        if one["type"] == "query" and one["datasource"]["uid"] != "${datasource}":
            broken.add("template-datasource-rule")
    if dashboard.get("editable") is not False:
        broken.add("uneditable-dashboard-rule")
    return broken


def _rules_of_panel(panel: Dashboard) -> set[str]:
    broken = set()
    if not panel.get("title") or not panel.get("description"):
        broken.add("panel-title-description-rule")
    if panel["datasource"].get("uid") != "${datasource}":
        broken.add("panel-datasource-rule")
    if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
        broken.add("panel-units-rule")
    if not panel.get("targets"):
        broken.add("panel-no-targets-rule")
    for target in panel.get("targets", []):
        broken |= _rules_of_target(target)
    excluded = {rule for rule, titles in exclusions().items() if panel.get("title") in titles}
    return broken - excluded


def _rules_of_target(target: Dashboard) -> set[str]:
    broken = set()
    expr = target["expr"]
    if target["datasource"].get("uid") != "${datasource}":
        broken.add("panel-datasource-rule")
    for metric, window in RATES.findall(expr):
        if window != "$__rate_interval":
            broken.add("target-rate-interval-rule")
        if not metric.endswith(COUNTERS):
            broken.add("rates-are-of-counters")
    counted = {metric for metric, _ in RATES.findall(expr)}
    for metric, matchers, _ in SELECTORS.findall(expr):
        if 'job=~"$job"' not in matchers:
            broken.add("target-job-rule")
        if 'instance=~"$instance"' not in matchers:
            broken.add("target-instance-rule")
        if metric.endswith(COUNTERS) and metric not in counted:
            broken.add("target-counter-agg-rule")
    return broken


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard_keeps_every_rule(name: str) -> None:
    assert broken_rules(dashboards()[name]) == set()


def _first(dashboard: Dashboard, kind: str = "timeseries") -> Dashboard:
    found: Dashboard = next(panel for panel in panels(dashboard) if panel["type"] == kind)
    return found


def _expr(text: str) -> Callable[[Dashboard], None]:
    def spoil(dashboard: Dashboard) -> None:
        _first(dashboard)["targets"][0]["expr"] = text

    return spoil


CHOSEN = '{job=~"$job", instance=~"$instance"}'
SPOILED: dict[str, Callable[[Dashboard], None]] = {
    "template-datasource-rule": lambda d: variables(d)["datasource"].update(query="loki"),
    "template-job-rule": lambda d: variables(d)["job"].update(multi=False),
    "template-instance-rule": lambda d: variables(d)["instance"].update(allValue=".*"),
    "template-on-time-change-reload-rule": lambda d: variables(d)["run"].update(refresh=1),
    "uneditable-dashboard-rule": lambda d: d.update(editable=True),
    "panel-title-description-rule": lambda d: _first(d).update(description=""),
    "panel-datasource-rule": lambda d: _first(d)["datasource"].update(uid="mine"),
    "panel-units-rule": lambda d: _first(d)["fieldConfig"]["defaults"].update(unit="lightyears"),
    "panel-no-targets-rule": lambda d: _first(d).update(targets=[]),
    "target-rate-interval-rule": _expr(f"rate(soak_attempts_total{CHOSEN}[5m])"),
    "rates-are-of-counters": _expr(f"rate(soak_sessions_live{CHOSEN}[$__rate_interval])"),
    "target-job-rule": _expr('soak_sessions_live{instance=~"$instance"}'),
    "target-instance-rule": _expr('soak_sessions_live{job=~"$job"}'),
    "target-counter-agg-rule": _expr(f"sum by (job) (soak_attempts_total{CHOSEN})"),
}


@pytest.mark.parametrize("rule", SPOILED)
def test_a_dashboard_that_breaks_a_rule_is_found(rule: str) -> None:
    dashboard = copy.deepcopy(dashboards()["overview"])
    SPOILED[rule](dashboard)
    assert {found.partition(":")[0] for found in broken_rules(dashboard)} == {rule}


def test_no_exclusion_is_left_over() -> None:
    titles = {panel["title"] for dashboard in dashboards().values() for panel in panels(dashboard)}
    assert set().union(*exclusions().values()) <= titles


# The layout --------------------------------------------------------------------------------------------------


def overlaps_and_holes(dashboard: Dashboard) -> set[str]:
    """Return the cells of the grid that two panels claim, or none, down to the last panel."""
    cells: dict[tuple[int, int], int] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                cells[x, y] = cells.get((x, y), 0) + 1
    bottom = max(y for _, y in cells) + 1
    every = {(x, y) for x in range(COLUMNS) for y in range(bottom)}
    return {
        *(f"{cell} is claimed {claims} times" for cell, claims in cells.items() if claims > 1),
        *(f"{cell} is outside" for cell in cells.keys() - every),
        *(f"{cell} is empty" for cell in every - cells.keys()),
    }


@pytest.mark.parametrize("name", dashboards())
def test_panels_fill_the_page_and_do_not_overlap(name: str) -> None:
    dashboard = dashboards()[name]
    assert overlaps_and_holes(dashboard) == set()
    assert all(panel["gridPos"]["w"] >= 3 and panel["gridPos"]["h"] >= 4 for panel in panels(dashboard))


def test_an_overlap_a_hole_and_a_panel_beyond_the_edge_are_found() -> None:
    dashboard = copy.deepcopy(dashboards()["overview"])
    tiles = panels(dashboard)
    tiles[1]["gridPos"]["x"] -= 1
    assert any("2 times" in cell for cell in overlaps_and_holes(dashboard))
    assert any("empty" in cell for cell in overlaps_and_holes(dashboard))
    tiles[-1]["gridPos"]["w"] += 1
    assert any("outside" in cell for cell in overlaps_and_holes(dashboard))


# What makes them portable ------------------------------------------------------------------------------------


def test_dashboards_are_what_their_code_makes() -> None:
    command = [sys.executable, "-m", "grafana.generate", "--check"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout) == (0, ""), made.stdout + made.stderr


def test_they_have_names_of_their_own_and_no_numbers_of_some_grafana() -> None:
    found = dashboards()
    assert {dashboard["uid"] for dashboard in found.values()} == {f"soak-{name}" for name in found}
    assert len({dashboard["title"] for dashboard in found.values()}) == len(found)
    for dashboard in found.values():
        assert dashboard["id"] is None
        assert "version" not in dashboard
        assert dashboard["tags"] == ["soak"]
        assert dashboard["schemaVersion"] == 39
        rows = [panel for panel in dashboard["panels"] if panel["type"] == "row"]
        numbers = sorted(panel["id"] for panel in (*rows, *panels(dashboard)))
        assert sorted(set(numbers)) == numbers


def test_each_links_to_the_others_to_the_status_page_and_to_the_runbook() -> None:
    for dashboard in dashboards().values():
        others, *pages = dashboard["links"]
        assert (others["type"], others["tags"], others["includeVars"], others["keepTime"]) == (
            *("dashboards", ["soak"]),
            *(True, True),
        )
        assert [page["url"] for page in pages] == ["$status_page", "${status_page:raw}/runbook"]
        assert variables(dashboard)["status_page"]["query"] == "http://127.0.0.1:9464"


def test_the_dashboard_of_stores_has_rows_for_each_store_which_ask_nothing_until_they_are_opened() -> None:
    rows = [panel for panel in dashboards()["store"]["panels"] if panel["type"] == "row"]
    repeated = [row for row in rows if row.get("repeat")]
    assert {row["repeat"] for row in repeated} == {"store"}
    for row in rows:
        assert row["collapsed"] is bool(row["panels"])
    for row in repeated:
        assert row["collapsed"]
        assert "$store" in row["title"]
        for panel in row["panels"]:
            for target in panel["targets"]:
                assert 'store=~"$store"' in target["expr"], "a row of one store shows that store"


def test_every_variable_that_a_query_names_can_be_chosen_and_every_choice_is_used() -> None:
    for name, dashboard in dashboards().items():
        chosen = variables(dashboard)
        named = set()
        for asked in queries():
            if asked.dashboard == name:
                named |= set(re.findall(r"\$(\w+)", asked.expr))
        assert named - {"__interval", "__rate_interval", "__range"} <= chosen.keys()
        assert {one["name"] for one in chosen.values() if one["type"] == "query"} <= named
        assert all(label_values(one) for one in chosen.values() if one["type"] == "query")


# What is absent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", dashboards())
def test_nothing_that_is_absent_looks_well(name: str) -> None:
    for panel in panels(dashboards()[name]):
        if panel["type"] not in {"stat", "bargauge"}:
            continue
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"] == "no data"
        assert (defaults["thresholds"]["steps"][0]["value"], defaults["thresholds"]["steps"][0]["color"]) == (
            None,
            "red",
        )
        special = next(one["options"] for one in defaults["mappings"] if one["type"] == "special")
        assert (special["match"], special["result"]["color"]) == ("null+nan", "red")
        words = next(one["options"] for one in defaults["mappings"] if one["type"] == "value")
        assert words["-1"] == {"text": "no data", "color": "red"}
        # Asked for now: the last value of a daemon that is gone would look as well as it did then.
        assert all(target["instant"] and not target["range"] for target in panel["targets"])


# Provisioning ------------------------------------------------------------------------------------------------


def test_the_data_source_takes_its_address_from_the_environment_and_the_dashboards_are_found() -> None:
    provisioning = ROOT / "grafana" / "provisioning"
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "${SOAK_PROMETHEUS_URL}")
    assert "secureJsonData" not in source
    settings = (ROOT / "grafana" / "grafana.env").read_text().splitlines()
    assert "SOAK_PROMETHEUS_URL=http://127.0.0.1:9090" in settings
    [provider] = yaml.safe_load((provisioning / "dashboards" / "soak.yaml").read_text())["providers"]
    assert (provider["type"], provider["options"]["path"]) == ("file", "/var/lib/grafana/dashboards")
