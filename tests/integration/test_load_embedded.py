"""Locust where no soak is running: it brings one up for its own lifetime, and its verdict is Locust's exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

LOCUSTFILE = ROOT / "locustfiles" / "sessions.py"


def locust(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--data-dir", str(folder / "soak"), *options]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )


def test_it_starts_a_soak_of_its_own_and_ends_with_its_verdict(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    options = ("--headless", "-u", "10", "-r", "10", "-t", "3s", "--think-time", "50ms", "--only-summary")
    done = locust(tmp_path, *options, "--store", "redis-list")
    assert "no soak is running in" in done.stdout
    assert "waiting for the embedded soak's verdict" in done.stdout
    assert "pass" in done.stdout
    assert done.returncode == 0, done.stdout


def test_a_soak_that_cannot_start_is_one_line_with_its_exit_code(tmp_path: Path) -> None:
    done = locust(tmp_path, "--headless", "--store", "no-such-store")
    assert done.returncode == 2, done.stdout
    assert "no-such-store" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_locustfile_run_by_itself_shows_its_options(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(LOCUSTFILE), "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for option in ("--headless", "--store", "--session-messages", "--writers-per-session", "--mix", "--think-time"):
        assert option in done.stdout
