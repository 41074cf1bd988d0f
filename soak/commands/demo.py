"""`soak demo`: sixty seconds that end in a found bug."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from soak import cli
from soak.errors import ExitCode, SoakError
from soak.report import outcome as outcomes

DESCRIPTION = (
    "Soak two stores on a Redis that soak starts and kills: one is correct, the other reads a conversation, adds a\n"
    "message and writes it all back. Show the commands, what they find, the story behind it, and the report."
)
EPILOG = """\
examples:
  soak demo
  soak demo --folder /tmp/demo      keep everything there"""

STORES = ("redis-list", "soak.flaws.whole_history_overwrite:WholeHistoryOverwrite")
LOAD = ("--users", "24", "--think", "250ms", "--set", "load.shared_share=0.5")
FAULT = ("--fault", "crash:redis:every=12s,hold=2s")
DURATION = ("--duration", "30s")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", metavar="FOLDER", type=Path, help="where data and report go (default: a new one)")


def execute(arguments: argparse.Namespace) -> ExitCode:
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="soak-demo-"))
    data, report = folder / "data", folder / "report.html"
    _say("A memory with a bug that its unit tests do not show, beside a correct one. Redis is killed twice.\n")
    stores = [word for store in STORES for word in ("--store", store)]
    _run("check", *stores, *LOAD, *DURATION, *FAULT, "--data-dir", str(data), "--report", f"html={report}")
    outcome = outcomes.read(data)
    findings = [] if outcome is None or outcome.result is None else outcome.result.findings
    if not findings:
        raise DemoFailedError(f"nothing was found, which is not as it should be; everything is in {folder}")
    _say("\nThe story of the clearest example:\n")
    _run("explain", findings[0].example.id, "--data-dir", str(data))
    _say(f"\nThe report, with charts: {report}")
    if shutil.which("soak") is None:
        _say("First:         source .venv/bin/activate")
    _say(f"Look further:  soak page {data}")
    _say(f"               soak violations --data-dir {data}")
    _say("Try your own:  soak check --store mypackage.memory:Memory   (docs: your own store)")
    return ExitCode.PASS


class DemoFailedError(SoakError):
    """The planted bug was not found."""

    exit_code = ExitCode.INCONCLUSIVE


def _run(*words: str) -> None:
    _say(f"$ soak {shlex.join(words)}")
    cli.main(words)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
