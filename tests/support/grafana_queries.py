"""The committed dashboards, and their queries as Grafana would send them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.paths import ROOT

FOLDER = ROOT / "grafana" / "dashboards"
SCRAPE_SECONDS = 15
INTERVAL_SECONDS = 15
_LABEL_VALUES = re.compile(r"^label_values\((?P<selector>.+), (?P<label>\w+)\)$")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass(frozen=True)
class Asked:
    """One query, and where it stands."""

    dashboard: str
    where: str
    expr: str
    instant: bool = False

    def __str__(self) -> str:
        return f"{self.dashboard}, {self.where}: {self.expr}"


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels without the headings between them, those in collapsed rows included."""
    inside = [panel for row in dashboard["panels"] for panel in row.get("panels") or []]
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"] + inside


def variables(dashboard: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def label_values(variable: Mapping[str, Any]) -> tuple[str, str]:
    """Return the selector and the label that the values of a variable come from."""
    found = _LABEL_VALUES.match(variable["query"]["query"])
    assert found, variable
    return found["selector"], found["label"]


def queries() -> Iterator[Asked]:
    """Give every query there is: of panels, of annotations, and the selectors of variables."""
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Asked(name, panel["title"], target["expr"], instant=target["instant"])
        for annotation in dashboard["annotations"]["list"]:
            yield Asked(name, f"annotation {annotation['name']}", annotation["expr"])
        for variable in variables(dashboard).values():
            if variable["type"] == "query":
                yield Asked(name, f"variable {variable['name']}", label_values(variable)[0], instant=True)


def substituted(expr: str, *, range_seconds: float, chosen: Mapping[str, list[str]] | None = None) -> str:
    """Put in what Grafana would: intervals for a scrape every 15 seconds, and the values that are chosen.

    All of a variable is its `allValue`; values that are chosen one by one are escaped and joined to a regular
    expression.
    """
    values = {
        "__interval": f"{INTERVAL_SECONDS}s",
        "__rate_interval": f"{max(INTERVAL_SECONDS + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS)}s",
        "__range": f"{round(range_seconds)}s",
        **dict.fromkeys(("job", "run", "instance", "store", "server"), ".+"),
        **{name: _joined(picked) for name, picked in (chosen or {}).items()},
    }
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], expr)


def _joined(values: list[str]) -> str:
    escaped = [re.sub(r"[\\^$.|?*+()\[\]{}]", lambda found: "\\\\" + found[0], value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def metrics(expr: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(re.findall(r"\b(?:soak_\w+|ALERTS)\b", expr))


def exclusions() -> dict[str, set[str]]:
    """Return the panels that need not keep a rule, by rule, as the linter's own file says."""
    told = yaml.safe_load((FOLDER / ".lint").read_text())["exclusions"]
    assert all(rule["reason"] for rule in told.values())
    return {name: {entry["panel"] for entry in rule["entries"]} for name, rule in told.items()}
