"""Every trial finds out a memory that is wrong in its way, and is silent on one that is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from soak.errors import ExitCode
from soak.faults.clock_step import ClockStep
from soak.scenarios.analyses import trials
from soak.scenarios.analyses.judgement import TrialResult, TrialVerdict
from tests.support.needs import all_required
from tests.support.paths import ROOT, SUBJECTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FOUND = {
    "concurrent-writers": {"lost", "rolled_back"},
    "growing-prefix": {"lost", "rolled_back", "stale", "non_monotonic"},
    "identical-turns": {"lost", "rolled_back"},
    "hard-text": {"corrupted"},
    "colliding-sessions": {"leaked"},
    "forgetting": {"resurrected"},
    "long-session": {"lost"},
    "clock-skew": {"reordered"},
    "dropped-replies": {"duplicated"},
    "outage-reads": {"stale", "non_monotonic"},
    "outage-writes": {"lost"},
    "process-crash": {"lost", "rolled_back"},
    "server-crash": {"lost", "rolled_back", "duplicated"},
    "power-cut": {"lost", "rolled_back", "duplicated"},
    "active-ttl": {"lost", "rolled_back"},
}
"""What is expected of the wrong memory: at least one of these."""


class _Report(msgspec.Struct):
    cells: list[TrialResult]


def analysed(folder: Path, *words: str) -> tuple[int, list[TrialResult], str]:
    done = subprocess.run(
        [sys.executable, "-m", "soak", "analyse", *words, "--json", "--environments", str(folder)],
        cwd=ROOT,
        capture_output=True,
        timeout=800,
        check=False,
    )
    told = done.stderr.decode()
    assert done.stdout, told
    return done.returncode, msgspec.json.decode(done.stdout, type=_Report).cells, told


def leave_out_what_cannot_be_had(cells: list[TrialResult]) -> list[TrialResult]:
    """Skip no trial where everything has to be there."""
    if all_required():
        return cells
    return [
        cell
        for cell in cells
        if not (cell.trial == "clock-skew" and ClockStep().library() is None)
        and not (cell.trial == "power-cut" and "compiler" in cell.reason)
    ]


def test_every_trial_has_a_flaw_that_it_must_find() -> None:
    assert set(FOUND) == set(trials.ALL)


def test_a_memory_that_is_right_passes_every_trial_and_loses_no_more_than_its_server_may(tmp_path: Path) -> None:
    code, cells, told = analysed(tmp_path, str(SUBJECTS / "remembering.py"), "--jobs", "3")
    cells = leave_out_what_cannot_be_had(cells)
    assert {cell.trial for cell in cells} <= set(trials.ALL)
    wrong = {cell.trial: (cell.verdict.value, cell.found, cell.reason, cell.example) for cell in cells}
    by_design = {cell.trial for cell in cells if cell.verdict is TrialVerdict.BY_DESIGN}
    assert by_design <= {"server-crash", "power-cut"}, wrong
    assert all(cell.verdict is TrialVerdict.PASS for cell in cells if cell.trial not in by_design), (wrong, told)
    assert all(cell.verified > 0 or cell.tolerated > 0 for cell in cells)
    assert code == 0


def test_a_memory_that_is_wrong_is_found_out_by_every_trial(tmp_path: Path) -> None:
    code, cells, told = analysed(tmp_path, str(SUBJECTS / "forgetful.py"), "--jobs", "3")
    cells = leave_out_what_cannot_be_had(cells)
    missed = {
        cell.trial: (cell.verdict.value, cell.found, cell.reason, cell.notes)
        for cell in cells
        if cell.verdict is not TrialVerdict.FINDING or not FOUND[cell.trial] & set(cell.found)
    }
    assert not missed, (missed, told)
    # Findings are what the command is for.
    assert code == 0


def test_nothing_follows_for_a_library_whose_server_died_by_itself(tmp_path: Path) -> None:
    words = ("--trial", "forgetting", "hard-text")
    code, cells, _ = analysed(tmp_path, str(SUBJECTS / "deadly.py"), *words)
    by_trial = {cell.trial: cell for cell in cells}
    forgetting = by_trial["forgetting"]
    assert (forgetting.verdict, forgetting.found) == (TrialVerdict.INCONCLUSIVE, {})
    assert forgetting.reason.startswith("the server died by itself, not by the trial (")
    assert code == ExitCode.INCONCLUSIVE
    _, (healthy,), _ = analysed(tmp_path, str(SUBJECTS / "remembering.py"), "--trial", "forgetting")
    assert healthy.verdict is TrialVerdict.PASS
