"""The published measurements name subjects, releases and trials that there are, with commands that make them again."""

from __future__ import annotations

import re

import pytest

from soak.scenarios.analyses import trials
from soak.subjects import catalogue
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "analyses.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"`soak analyse (\S+) --trial (\S+) --seed (\d+)`", PAGE)
ROWS = re.findall(r"^\| `([^`]+)` \| (\d[^|]*?) \|", PAGE, re.MULTILINE)


def test_every_command_can_be_given() -> None:
    assert len(COMMANDS) > 20
    subjects = catalogue.all_subjects()
    assert {subject for subject, _, _ in COMMANDS} <= set(subjects)
    assert {trial for _, trial, _ in COMMANDS} <= set(trials.ALL)


@pytest.mark.parametrize(("name", "version"), ROWS)
def test_a_row_is_of_the_release_that_its_subject_pins(name: str, version: str) -> None:
    assert catalogue.all_subjects()[name].version == version


def test_every_subject_has_a_row() -> None:
    measured = {name for name, _ in ROWS}
    assert {subject.name for subject in catalogue.find([])} <= measured


def test_the_rows_with_a_finding_are_as_many_as_the_page_says() -> None:
    heat_map, _ = PAGE.split("## Heat map")[1].split("✓ nothing found")
    rows = [line for line in heat_map.splitlines() if re.match(r"\| `[^`]+` \| \d", line)]
    found = [row for row in rows if "✗" in row]
    assert f"\n{len(found)} of the {len(rows)} rows of the map below have a finding" in PAGE


def test_every_finding_has_its_command() -> None:
    head = next(line for line in PAGE.splitlines() if line.startswith("| library | version |"))
    trials = [cell.strip() for cell in head.strip("|").split("|")][2:]
    for line in PAGE.splitlines():
        if re.match(r"\| `[^`]+` \| \d", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            for trial, cell in zip(trials, cells[2:], strict=True):
                if cell == "✗":
                    assert (cells[0].strip("`"), trial, "7") in COMMANDS
