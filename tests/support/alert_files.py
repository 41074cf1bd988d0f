"""The files that are shipped for Prometheus and Alertmanager, as the tests read them."""

from __future__ import annotations

import functools
import re
from typing import Any

import yaml

from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy" / "prometheus"
ALERTS = DEPLOY / "alerts.yml"
RECORDING = DEPLOY / "recording.yml"
RULE_TESTS = sorted((DEPLOY / "tests").glob("*.yml"))
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"

_METRIC = re.compile(r"\bsoak_[a-z0-9_]+(?![:\w])")


@functools.cache
def rules() -> list[dict[str, Any]]:
    """Return all rules, those that record and those that alert."""
    files = [yaml.safe_load(path.read_text()) for path in (RECORDING, ALERTS)]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name; each name is there once."""
    found = [rule for rule in rules() if "alert" in rule]
    named = {rule["alert"]: rule for rule in found}
    assert len(named) == len(found)
    return named


def metrics_in_rules() -> set[str]:
    """Return the names of soak's metrics that any rule asks for."""
    return {name for rule in rules() for name in _METRIC.findall(rule["expr"])}


def headings() -> set[str]:
    """Return the anchors of the runbook's headings."""
    return {line[3:].strip().lower() for line in RUNBOOK.read_text().splitlines() if line.startswith("## ")}
