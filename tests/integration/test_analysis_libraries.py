"""Real libraries, as they are published: a known loss is found again, and its repair is seen."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from soak.scenarios.analyses.judgement import TrialResult, TrialVerdict
from tests.support.paths import ROOT

pytestmark = pytest.mark.timeout(1_500)

KNOWN = {
    # It keeps one of several turns that say the same: one for each of two roles here.
    ("agent-framework-redis@1.0.0b261002", "identical-turns"): {"lost"},
    ("agent-framework-redis@1.0.0b261002", "hard-text"): set(),
    ("agent-framework-redis@1.0.0b261002", "colliding-sessions"): set(),
    # It looks sessions up by a tag, for which case, commas and blanks at the ends mean nothing or something else.
    ("redisvl-messages", "identical-turns"): set(),
    ("redisvl-messages", "hard-text"): set(),
    ("redisvl-messages", "colliding-sessions"): {"leaked", "lost", "rolled_back"},
    # It takes characters out of texts that PostgreSQL would not take.
    ("agno-postgres", "identical-turns"): None,
    ("agno-postgres", "hard-text"): {"corrupted"},
    ("agno-postgres", "colliding-sessions"): set(),
}
"""What is known of published releases: kinds of findings, none at all, or None where the trial does not apply."""


class _Report(msgspec.Struct):
    cells: list[TrialResult]


def analysed(*words: str) -> list[TrialResult]:
    """Make cells, in environments of the user's cache, which are made the first time."""
    done = subprocess.run(
        [sys.executable, "-m", "soak", "analyse", *words, "--json"],
        cwd=ROOT,
        capture_output=True,
        timeout=1_400,
        check=False,
    )
    assert done.stdout, done.stderr.decode()
    cells = msgspec.json.decode(done.stdout, type=_Report).cells
    for cell in cells:
        if "cannot be installed" in cell.reason and os.environ.get("SOAK_REQUIRE_ALL") != "1":
            pytest.skip(cell.reason)
        assert cell.verdict is not TrialVerdict.INCONCLUSIVE, (cell.reason, done.stderr.decode())
    return cells


@pytest.mark.long
def test_three_published_libraries_show_what_is_known_of_them_and_nothing_else_and_the_same_again() -> None:
    subjects, trials = (list(dict.fromkeys(names)) for names in zip(*KNOWN, strict=True))
    cells = analysed(*subjects, "--trial", *trials)
    found = {
        (cell.subject, cell.trial): None if cell.verdict is TrialVerdict.NOT_APPLICABLE else set(cell.found)
        for cell in cells
    }
    assert found == KNOWN
    for cell in cells:
        assert (cell.verdict is TrialVerdict.FINDING) is bool(cell.found), cell
        assert cell.verified > 0 or cell.verdict is TrialVerdict.NOT_APPLICABLE, cell
    again = analysed(*subjects, "--trial", *trials)
    assert [_shown(cell) for cell in again] == [_shown(cell) for cell in cells]


def _shown(cell: TrialResult) -> tuple[object, ...]:
    return cell.subject, cell.trial, cell.verdict, cell.found, cell.acknowledged, cell.example


@pytest.mark.extra
def test_a_release_that_overwrites_what_others_write_is_found_to_lose_most_of_it() -> None:
    (cell,) = analysed("agno-redis@2.6.4", "--trial", "concurrent-writers")
    assert cell.verdict is TrialVerdict.FINDING
    lost = cell.found.get("lost", 0) + cell.found.get("rolled_back", 0)
    assert lost > cell.acknowledged // 2
    assert cell.command == "soak analyse agno-redis@2.6.4 --trial concurrent-writers --seed 7"
