"""The shipped rules and configurations are valid, each alert is tested from both sides, and each has a page."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from soak import cli
from tests.support.alert_files import (
    ALERTMANAGER,
    ALERTS,
    DEPLOY,
    RECORDING,
    RULE_TESTS,
    RUNBOOK,
    alerts,
    headings,
    rules,
)
from tests.support.prometheus_servers import program

SECONDS_MAX = 150
ALWAYS_FIRES = "Watchdog"
NEVER, ALWAYS = "vector(1) > 1", "vector(1)"


def run(*command: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [program(str(command[0])), *map(str, command[1:])],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def checks() -> list[tuple[str, bool]]:
    """Return each check of the rule tests: which alert, and whether it should ring."""
    files = [yaml.safe_load(path.read_text()) for path in RULE_TESTS]
    tests = [check for file in files for test in file["tests"] for check in test["alert_rule_test"]]
    return [(check["alertname"], bool(check["exp_alerts"])) for check in tests]


def test_prometheus_accepts_the_rules_and_the_configuration() -> None:
    for command in (
        ("promtool", "check", "rules", RECORDING, ALERTS),
        ("promtool", "check", "config", DEPLOY / "prometheus.yml"),
    ):
        code, said = run(*command)
        assert code == 0, said
        assert "FAILED" not in said


def test_alertmanager_accepts_its_configuration() -> None:
    code, said = run("amtool", "check-config", ALERTMANAGER)
    assert code == 0, said
    assert "3 receivers" in said


@pytest.mark.long
def test_every_alert_rings_and_falls_silent_as_its_tests_say() -> None:
    assert len(RULE_TESTS) == 5
    code, said = run("promtool", "test", "rules", *RULE_TESTS)
    assert code == 0, said


@pytest.mark.long
@pytest.mark.parametrize(("expression", "should_ring"), [(NEVER, True), (ALWAYS, False)])
def test_the_tests_of_every_alert_notice_if_it_never_rings_or_always_does(
    tmp_path: Path, expression: str, should_ring: bool
) -> None:
    spoiled = yaml.safe_load(ALERTS.read_text())
    for group in spoiled["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expression
            rule.pop("for", None)
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(spoiled))
    (tmp_path / "recording.yml").write_text(RECORDING.read_text())
    (tmp_path / "tests").mkdir()
    for path in RULE_TESTS:
        (tmp_path / "tests" / path.name).write_text(path.read_text())
    code, said = run("promtool", "test", "rules", *sorted((tmp_path / "tests").glob("*.yml")))
    assert code != 0
    noticed = set(re.findall(r"alertname: (\w+)", said))
    assert noticed >= {name for name, rings in checks() if rings is should_ring} - {ALWAYS_FIRES}


def test_every_alert_has_a_test_in_which_it_rings_and_one_in_which_it_does_not() -> None:
    tested = set(checks())
    for name in alerts():
        assert (name, True) in tested, f"no test lets {name} ring"
        assert (name, False) in tested or name == ALWAYS_FIRES, f"no test wants {name} to be silent"
    assert {name for name, _ in tested} == set(alerts())


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_says_how_bad_it_is_what_is_wrong_and_where_to_read_on(name: str) -> None:
    alert = alerts()[name]
    told = alert["annotations"]
    assert alert["labels"]["severity"] in ({"none"} if name == ALWAYS_FIRES else {"critical", "warning"})
    assert set(told) == {"summary", "description", "runbook_url"}
    assert name == ALWAYS_FIRES or "$labels" in told["description"]
    path, _, anchor = told["runbook_url"].partition("#")
    of_no_soak = name in {"NoSoakIsScraped", ALWAYS_FIRES}
    own = '"http://127.0.0.1:9464/runbook"' if of_no_soak else '(printf "http://%s/runbook" $labels.instance)'
    assert path == f"{{{{ or $externalLabels.runbook {own} }}}}"
    assert anchor == name.lower()
    assert anchor in headings()


@pytest.mark.parametrize("shipped", ["prometheus/prometheus.yml", "compose/prometheus.yml"])
def test_a_configuration_that_is_shipped_says_where_the_runbook_is(shipped: str) -> None:
    config = yaml.safe_load((DEPLOY.parent / shipped).read_text())
    assert config["global"]["external_labels"]["runbook"] == "http://127.0.0.1:9464/runbook"


def test_a_violation_rings_at_once_and_its_rule_waits_for_nothing() -> None:
    assert "for" not in alerts()["ConsistencyViolation"]
    assert alerts()["ConsistencyViolation"]["labels"]["severity"] == "critical"


def test_limits_follow_the_settings() -> None:
    """A rule that repeats a default would be wrong as soon as somebody changes the setting."""
    for name, setting in {
        "CanarySilent": "verifier.canary",
        "CoverageTooOld": "verifier.coverage",
        "RecoveryTooSlow": "faults.recovery_max",
        "SoakNotWriting": "load.think",
        "VerifierBehind": "verifier.unverified_age_max",
        "VerifierStalled": "verifier.coverage",
    }.items():
        assert f'soak_setting_seconds{{name="{setting}"}}' in alerts()[name]["expr"]


def test_what_is_recorded_is_used_and_what_is_used_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = {name for rule in rules() for name in re.findall(r"\bsoak:[a-z_:0-9]+", rule["expr"])}
    assert used == recorded


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=ConsistencyViolation", "severity=critical"], "now"),
        (["alertname=LedgerGap", "severity=warning"], "day"),
        (["alertname=Watchdog", "severity=none"], "dead-mans-switch"),
    ],
)
def test_each_severity_goes_to_its_receiver(labels: list[str], receiver: str) -> None:
    code, said = run("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels)
    assert code == 0, said
    assert receiver in said.split()


def test_no_secret_and_no_foreign_address_stands_in_the_files() -> None:
    config: dict[str, Any] = yaml.safe_load(ALERTMANAGER.read_text())
    urls = [hook["url"] for receiver in config["receivers"] for hook in receiver["webhook_configs"]]
    assert all(url.startswith("http://127.0.0.1:") for url in urls)
    assert not re.search(r"(password|secret|credentials|token):\s*\S", ALERTMANAGER.read_text())


def test_the_runbook_has_a_page_for_every_alert_with_three_commands_to_begin_with() -> None:
    pages = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOK.read_text(), re.DOTALL | re.MULTILINE))
    assert set(pages) == set(alerts())
    for name, page in pages.items():
        assert page.strip().startswith(alerts()[name]["labels"]["severity"] + ".")
        block = re.search(r"```bash\n(.*?)```", page, re.DOTALL)
        assert block, name
        assert len(block[1].splitlines()) == 3, name
        assert "\nLikely: " in page, name


def test_the_commands_of_the_runbook_exist_with_the_options_they_are_given() -> None:
    lines = re.findall(r"^soak .*", RUNBOOK.read_text(), re.MULTILINE)
    assert len(lines) > 5
    for line in lines:
        words = shlex.split(line.partition(" | ")[0], comments=True)[1:]
        assert cli._parser(words[0]).parse_args(words).execute
