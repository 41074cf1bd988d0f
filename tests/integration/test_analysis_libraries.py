"""Real libraries, as they are published: a known loss is found again, and its repair is seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from soak.analysis.result import Cell, Verdict

pytestmark = [pytest.mark.extra, pytest.mark.timeout(1_500)]

ROOT = Path(__file__).resolve().parents[2]


class _Report(msgspec.Struct):
    cells: list[Cell]


def concurrent_writers(subject: str) -> Cell:
    """Try it, in an environment of the user's cache, which is made the first time."""
    done = subprocess.run(
        [sys.executable, "-m", "soak", "analyse", subject, "--trial", "concurrent-writers", "--json"],
        cwd=ROOT,
        capture_output=True,
        timeout=1_400,
        check=False,
    )
    assert done.stdout, done.stderr.decode()
    (cell,) = msgspec.json.decode(done.stdout, type=_Report).cells
    if "cannot be installed" in cell.reason and os.environ.get("SOAK_REQUIRE_ALL") != "1":
        pytest.skip(cell.reason)
    assert cell.verdict is not Verdict.INCONCLUSIVE, (cell.reason, done.stderr.decode())
    return cell


def test_a_release_that_overwrites_what_others_write_is_found_to_lose_most_of_it() -> None:
    cell = concurrent_writers("agno-redis@2.6.4")
    assert cell.verdict is Verdict.FINDING
    lost = cell.found.get("lost", 0) + cell.found.get("rolled_back", 0)
    assert lost > cell.acknowledged // 2
    assert cell.command == "soak analyse agno-redis@2.6.4 --trial concurrent-writers --seed 7"
