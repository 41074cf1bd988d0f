"""`soak demo` ends in a found bug, its story and a report."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_it_finds_the_planted_bug_tells_its_story_and_leaves_a_report(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "soak", "demo", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r"messages \(.*%\) lost on soak.flaws.whole_history_overwrite.* a concurrent overwrite", done.stdout
    )
    assert "Probable cause: concurrent overwrite" in done.stdout
    assert re.search(r"^\$ soak explain \w+", done.stdout, re.MULTILINE)
    assert re.search(r"redis-list +[\d,]+ +[\d,]+ +[\d,]+ +0 ", done.stdout), "the correct one has no violation"
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
