"""The workflow for pull requests: few rights, pinned actions, and its lines do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checking import new_folder
from tests.support.paths import ROOT

WORKFLOW = ROOT / "deploy" / "github" / "soak.yml"
SECONDS_MAX = 150.0


def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return found


def job() -> dict[str, Any]:
    (only,) = workflow()["jobs"].values()
    found: dict[str, Any] = only
    return found


def test_it_may_read_the_code_and_the_report_of_main_and_nothing_else() -> None:
    assert workflow()["permissions"] == {"contents": "read", "actions": "read"}
    assert "permissions" not in job()
    assert "secrets." not in WORKFLOW.read_text()
    # Yaml takes a bare "on" for true.
    assert set(workflow()[True]) == {"pull_request", "push", "workflow_dispatch"}
    assert workflow()[True]["push"] == {"branches": ["main"]}
    assert job()["timeout-minutes"] <= 15


def test_every_action_is_pinned_to_a_commit_and_says_its_version() -> None:
    used = re.findall(r"uses: (.*)", WORKFLOW.read_text())
    assert len(used) == sum("uses" in step for step in job()["steps"]) == 3
    for one in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


def test_the_report_is_kept_whatever_the_verdict() -> None:
    kept = job()["steps"][-1]
    assert kept["if"] == "always()"
    assert kept["with"]["path"] == "soak-report"
    compare = job()["steps"][-2]
    assert "!cancelled()" in compare["if"]
    assert f"--name {kept['with']['name']} --dir main-report" in compare["run"], "what main has kept is fetched"


GH = """#!/bin/sh
case "$1 $2" in
  "run list") test -e main-has-run && echo 17 || true ;;
  "run download") test "$3" = 17 && mkdir main-report && cp soak-report/report.json main-report ;;
esac
"""
"""In place of the runner's own: what main has kept is the report of this run."""


@pytest.mark.long
def test_its_lines_soak_write_the_report_and_a_summary() -> None:
    with new_folder() as folder:
        for name in ("Makefile", "requirements.lock", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        # What the first line makes, as if it had been made: its stamp is newer than the locks.
        (folder / ".venv").mkdir()
        (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
        (folder / ".venv" / ".runtime-is-installed").touch()
        (folder / "gh").write_text(GH)
        (folder / "gh").chmod(0o755)
        summary = folder / "summary.md"
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
        environment = {**plain, **job()["env"], "SOAK_DURATION": "3s", "SOAK_LOAD__USERS": "8"}
        environment |= {"PATH": f"{folder}:{plain['PATH']}", "GITHUB_WORKFLOW": "soak"}
        lines = [step["run"] for step in job()["steps"] if "run" in step]
        for line in (*lines, lines[-1]):
            told = subprocess.run(
                ["bash", "-e", "-c", line],  # as the runner does
                cwd=folder,
                env={**environment, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"},
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS_MAX,
            )
            assert told.returncode == 0, told.stdout + told.stderr
            if line == lines[-1] and not (folder / "main-has-run").exists():
                assert "There is no run of main to compare with yet." in summary.read_text()
                assert "pass" in summary.read_text()
                (folder / "main-has-run").touch()
        written = {path.suffix for path in (folder / "soak-report").iterdir()}
        assert {".json", ".xml", ".md", ".html"} <= written
        assert (folder / "soak-report" / "compare.html").exists()
        assert "soak compare" in summary.read_text()
