"""The pages keep their word where nothing has to run: tables, settings, commands, links, and how long the README is."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import soak
from soak import cli
from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.commands.flags import FAULT_EVERY_DEFAULT, FAULT_EVERY_DEFAULTS
from soak.daemon.contracts import check_declared
from soak.duration import format_seconds, parse_seconds
from soak.errors import ExitCode
from soak.faults.catalogue import ALL as FAULTS
from soak.faults.presets import LEFT_TO_RULES
from soak.flaws.catalogue import ALL as FLAWS
from soak.report.formats import FORMATS
from soak.settings import FaultSettings, SoakSettings
from soak.stores import registry
from tests.support.pages import PAGES, blocks, shell_lines, table, text_of
from tests.support.paths import ROOT

README = text_of("README.md")
README_LINES_MAX = 200
README_WORDS_MAX = 1_300
SELFTEST_LINE = re.compile(r"(\d+) of (\d+) flaws found with their twins silent")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def test_the_readme_can_be_finished() -> None:
    assert len(README.splitlines()) <= README_LINES_MAX
    assert len(README.split()) <= README_WORDS_MAX


def test_the_reference_pages_are_what_the_program_says() -> None:
    command = [sys.executable, str(ROOT / "docs" / "tools" / "reference.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_examples_shown_are_the_files() -> None:
    for name, block in blocks("file"):
        assert (ROOT / name).read_text() == block


def test_the_settings_shown_are_settings() -> None:
    shown = [SoakSettings(**tomllib.loads(block)) for _, block in blocks("config")]
    assert 200 in [settings.load.users for settings in shown]
    for settings in shown:
        check_declared(settings.contract.stores, [], registry.NAMES)
        named = {name for rule in settings.faults.rules for name in (rule.faults or {rule.fault})}
        assert {*named, *settings.testbed.allow_faults} <= set(FAULTS)


def test_the_selftest_shown_found_every_flaw_there_is() -> None:
    [(_, block)] = blocks("selftest")
    rows = [re.split(r"\s{2,}", line.strip()) for line in block.split("\n\n")[0].splitlines()[1:]]
    assert [row[0] for row in rows] == [flaw.name for flaw in FLAWS.values()]
    for name, _expected, found, _seconds, _affected, cause, twin, verdict in rows:
        assert Kind(found) in FLAWS[name].kinds
        assert Cause(cause) in FLAWS[name].causes
        assert (twin.split(",")[0], verdict) == ("silent", "found")


def test_the_readme_and_the_selftest_page_are_of_one_run() -> None:
    [(_, line)] = blocks("proof")
    assert line.strip() in text_of("docs/selftest.md")
    found = SELFTEST_LINE.match(line)
    assert found is not None
    assert int(found[1]) == int(found[2]) == len(FLAWS)


def test_the_track_record_is_measured() -> None:
    rows = [row[2] for row in table("what", "README.md") if row[2].startswith("soak ")]
    assert len(rows) == 10
    for command in rows:
        cli.parse(shlex.split(command)[1:])
        assert command in text_of("docs/analyses.md"), f"{command} is not among the measurements"


def test_the_stores_shown_are_those_there_are() -> None:
    assert [row[0] for row in table("store", "docs/stores.md")] == list(registry.specs())


def test_the_kinds_shown_are_those_there_are() -> None:
    assert table("kind", "docs/concepts.md") == [[kind.value, kind.sentence, kind.clause] for kind in Kind]


def test_the_faults_shown_are_those_there_are() -> None:
    shown = [name for row in table("group", "docs/faults.md") for name in row[1].split(", ")]
    assert sorted(shown) == sorted(FAULTS)
    assert f"{len(FAULTS)} faults" in README
    presets = set(get_args(FaultSettings.model_fields["preset"].annotation)) - {"none"}
    assert {row[0] for row in table("preset", "docs/faults.md")} == presets


def test_the_faults_that_no_preset_does_are_those_said_to_be() -> None:
    (sentence,) = re.findall(r"^No preset does these.*?\n\n", text_of("docs/faults.md"), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(LEFT_TO_RULES)


def test_the_pace_of_a_fault_without_one_is_as_it_is_said() -> None:
    said = " ".join(text_of("docs/faults.md").split())
    paces = (format_seconds(parse_seconds(pace)) for pace in (FAULT_EVERY_DEFAULTS["check"], FAULT_EVERY_DEFAULT))
    assert list(paces) == ["15s", "2m"]
    assert "every 15 s in `soak check`, and every 2 minutes in `soak run`" in said


def test_the_parameters_shown_are_those_there_are() -> None:
    assert table("fault", "docs/faults.md") == [
        [fault.name, name, one.text(one.default), one.range.removeprefix("from "), one.help]
        for fault in FAULTS.values()
        for name, one in fault.parameters().items()
    ]


def test_the_report_formats_shown_are_those_there_are() -> None:
    assert [row[0] for row in table("format", "docs/reports.md")] == list(FORMATS)


def test_the_exit_codes_shown_are_those_there_are() -> None:
    assert [int(row[0]) for row in table("code", "docs/cli.md")] == [int(code) for code in ExitCode]


def test_the_folders_shown_are_all_there_are() -> None:
    shown = {name for row in table("folder", "docs/architecture.md") for name in re.findall(r"soak/(\w+)/", row[0])}
    rooms = {path.parent.name for path in (ROOT / "soak").glob("*/__init__.py")}
    assert shown == rooms


def test_the_alerts_shown_are_those_there_are() -> None:
    rules = set(re.findall(r"^ *- alert: (\w+)", text_of("deploy/prometheus/alerts.yml"), re.MULTILINE))
    shown = {name for row in table("alert", "docs/alerting.md") for name in row[0].split(", ")}
    assert shown == rules
    assert set(re.findall(r"^## (\w+)$", text_of("docs/runbook.md"), re.MULTILINE)) == rules


def test_the_log_lines_that_the_runbook_looks_for_are_written() -> None:
    sources = "".join(path.read_text() for path in sorted((ROOT / "soak").rglob("*.py")))
    written = set(re.findall(r'_log\.\w+\(\s*f?"([^"]+)"', sources))
    patterns = re.findall(r"^grep -i?E '([^']+)' \.soak/logs/", text_of("docs/runbook.md"), re.MULTILINE)
    looked_for = {
        before + one
        for pattern in patterns
        for before, group, plain in re.findall(r"(\w+_)\(([\w|]+)\)|([\w ]+)", pattern)
        for one in (group or plain).split("|")
        if before or " " in plain
    }
    assert len(looked_for) > 4
    assert [one for one in looked_for if not any(one in event for event in written)] == []


def test_the_version_is_the_same_everywhere() -> None:
    assert re.search(rf"^## {re.escape(soak.__version__)}\b", text_of("CHANGELOG.md"), re.MULTILINE)
    assert f"ARG VERSION={soak.__version__}\n" in text_of("deploy/Dockerfile")
    for name in ("deploy/compose.yaml", "deploy/compose.faults.yaml"):
        assert set(re.findall(r":-soak:([\d.]+)", text_of(name))) == {soak.__version__}


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", text_of(page), flags=re.DOTALL)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, heading = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        if heading:
            assert heading in _headings(text_of(target)), f"{page.name}: no heading for {link}"


def _headings(text: str) -> set[str]:
    found = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@every_page
def test_every_path_named_is_there(page: Path) -> None:
    named = re.findall(r"`((?:soak|tests|docs|deploy|grafana|examples|locustfiles)/[\w./*-]+)`", text_of(page))
    real = [name for name in named if "NAME" not in name]
    assert [name for name in real if not any(ROOT.glob(name.rstrip("/")))] == []


@every_page
def test_every_command_shown_is_understood(page: Path) -> None:
    for line in shell_lines(text_of(page)):
        words = shlex.split(re.sub(r"^\w+=\$\((.*)\)$", r"\1", line), comments=True)
        words = words[: next((number for number, word in enumerate(words) if word in {"&", "&&", ">", "|"}), None)]
        while words and "=" in words[0]:
            words.pop(0)
        if words[:1] == ["soak"] and words[1:2] not in (["--version"], []):
            cli.parse(words[1:])
        elif words[:1] == ["make"]:
            assert not [word for word in words[1:] if "=" not in word and word not in _targets()], line
        else:
            paths = [word for word in words if re.match(r"(?:tests|docs|deploy|examples|locustfiles)/", word)]
            assert not [path for path in paths if not any(ROOT.glob(path))], line


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("target", ["run", "test", "docs"])
def test_make_knows_the_targets_of_the_readme(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"make {target}" in README
