"""The action for GitHub and the template for GitLab: few rights, pinned, and their lines do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checking import new_folder
from tests.support.paths import ROOT

ACTION = ROOT / "deploy" / "github" / "action" / "action.yml"
TEMPLATE = ROOT / "deploy" / "gitlab" / "soak.yml"
SECONDS_MAX = 150.0


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(ACTION)["runs"]["steps"]
    return found


def installed(folder: Path) -> None:
    """Lay out what the lines that install make, as if they had: the stamp is newer than the locks."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (folder / ".venv" / ".runtime-is-installed").touch()


def run(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**plain, "SOAK_LOAD__USERS": "8", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


def test_the_action_is_pinned_and_puts_no_input_into_a_script() -> None:
    assert read(ACTION)["runs"]["using"] == "composite"
    for one in re.findall(r"uses: (actions/.*)", ACTION.read_text()):
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one
    for step in steps():
        assert ("run" in step) == (step.get("shell") == "bash")
        assert "${{" not in step.get("run", "")
    used = {name for step in steps() for name in re.findall(r"inputs\.([a-z]+)", yaml.safe_dump(step))}
    assert used == set(read(ACTION)["inputs"])


def test_the_actions_that_the_workflow_and_the_action_share_are_of_one_version() -> None:
    versions: dict[str, set[str]] = {}
    for path in (ACTION, ROOT / "deploy" / "github" / "soak.yml"):
        for name, version in re.findall(r"uses: (actions/[a-z-]+)@(\w+)", path.read_text()):
            versions.setdefault(name, set()).add(version)
    assert all(len(found) == 1 for found in versions.values()), versions


@pytest.mark.long
def test_the_steps_of_the_action_soak_report_and_tell_the_verdict() -> None:
    inputs = {name: str(one["default"]) for name, one in read(ACTION)["inputs"].items()}
    inputs |= {"stores": "redis-list", "duration": "3s"}
    with new_folder() as folder:
        installed(folder)
        action = folder / "deploy" / "github" / "action"
        action.mkdir(parents=True)
        output = folder / "output"
        for step in (step for step in steps() if "run" in step):
            given = {
                name: re.sub(r"\$\{\{ inputs\.([a-z]+) \}\}", lambda found: inputs[found[1]], value)
                for name, value in step.get("env", {}).items()
            }
            done = run(step["run"], folder, **given, GITHUB_ACTION_PATH=str(action), GITHUB_OUTPUT=str(output))
            assert done.returncode == 0, done.stdout + done.stderr
        assert output.read_text() == "verdict=pass\n"
        assert (folder / inputs["report"] / "junit.xml").exists()
        # What cannot begin fails the step, and tells no verdict.
        output.unlink()
        refused = run(
            steps()[2]["run"],
            folder,
            SOAK_STORES__NAMES="no-such-store",
            REPORT="other",
            GITHUB_ACTION_PATH=str(action),
            GITHUB_OUTPUT=str(output),
        )
        assert refused.returncode == 2, refused.stderr
        assert not output.exists()


@pytest.mark.long
def test_the_script_of_the_template_soaks_and_writes_what_it_says_is_kept() -> None:
    (job,) = (one for name, one in read(TEMPLATE).items() if name == ".soak")
    variables = {name: str(value) for name, value in job["variables"].items() if name.startswith("SOAK_")}
    with new_folder() as folder:
        installed(folder)
        for line in job["script"]:
            done = run(line, folder, **{**variables, "SOAK_STORES__NAMES": "redis-list", "SOAK_DURATION": "3s"})
            assert done.returncode == 0, done.stdout + done.stderr
        for path in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
            assert (folder / path).exists()
        compare(job["after_script"], folder)
    assert job["artifacts"]["when"] == "always"


CURL = """#!/bin/sh
printf '%s\\n' "$@" > asked
test -e main-has-run && python3 -m zipfile -c main.zip soak-report
"""
"""In place of the image's own: what the default branch has kept is the report of this run."""


def compare(lines: list[str], folder: Path) -> None:
    """Run the script after the job: without a run of the default branch, and with one."""
    (folder / "curl").write_text(CURL)
    (folder / "curl").chmod(0o755)
    told = []
    given = {"CI_DEFAULT_BRANCH": "main", "CI_JOB_NAME": "soak", "CI_JOB_TOKEN": "t0k", "CI_API_V4_URL": "http://h/v4"}
    given |= {"CI_PROJECT_ID": "7", "PATH": f"{folder}:{os.environ['PATH']}"}
    for source in ("push", "merge_request_event", "merge_request_event"):
        done = run(lines[0], folder, **given, CI_PIPELINE_SOURCE=source)
        assert done.returncode == 0, done.stdout + done.stderr
        told.append(done.stdout)
        if told[1:]:
            (folder / "main-has-run").touch()
    assert told[:2] == ["", "There is no report of main to compare with.\n"]
    assert told[2].startswith("no new findings")
    assert (folder / "asked").read_text().splitlines()[4:6] == ["--header", "JOB-TOKEN: t0k"]
    assert (folder / "asked").read_text().splitlines()[
        -1
    ] == "http://h/v4/projects/7/jobs/artifacts/main/download?job=soak"
    assert (folder / "soak-report" / "compare.html").exists()
