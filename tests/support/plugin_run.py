"""Runs pytest on a small project of a team that has soak installed, and says how each test ended."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

RUN_SECONDS_MAX = 600.0
"""On a machine that has other things to do; it is a matter of seconds otherwise."""
INI = "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"

WITHOUT = ("-pno:cacheprovider", "-pno:hypothesispytest", "-pno:valkey")
"""Plugins that such a project may not have, and that take a second to import."""


class Result(NamedTuple):
    """What pytest made of the project."""

    code: int
    outcomes: dict[str, str]
    """`passed`, `failed`, `skipped` or `error`, by Class::test[parameters]."""
    messages: dict[str, str]
    output: str

    def named(self, outcome: str) -> set[str]:
        return {name for name, found in self.outcomes.items() if found == outcome}


def run_pytest(folder: Path, files: dict[str, str], *arguments: str, **environment: str) -> Result:
    """Write the files, and run pytest on them in a process of its own."""
    for name, text in {"pytest.ini": INI, **files}.items():
        (folder / name).write_text(text)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SOAK_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *WITHOUT, f"--junitxml={report}", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    outcomes: dict[str, str] = {}
    messages: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase") if report.exists() else ():  # noqa: S314  our own file
        suite = str(case.get("classname")).rpartition(".")[2]
        name = f"{suite}::{case.get('name')}" if suite.startswith("Test") else str(case.get("name"))
        ending = next((child for child in case if child.tag in ("failure", "skipped", "error")), None)
        outcome = "passed" if ending is None else {"failure": "failed"}.get(ending.tag, ending.tag)
        outcomes[name] = outcome
        messages[name] = "" if ending is None else f"{ending.get('message')}\n{ending.text}"
    return Result(done.returncode, outcomes, messages, done.stdout + done.stderr)
