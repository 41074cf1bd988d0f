"""`soak check`: a bounded soak for a pull request, in a folder of its own."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from soak.commands.flags import DATA_DIR, SOAKING, add_flags, read_configuration
from soak.commands.run import add_output_arguments, append_step_summary, soak
from soak.configuration import Configuration
from soak.daemon.reproduce import COMMAND_DEFAULTS
from soak.errors import ExitCode, SoakError

DESCRIPTION = (
    "Soak for a short time (default: 60s) and answer with the exit code. The data folder is temporary: it is removed\n"
    "after a pass, and kept and named otherwise."
)
EPILOG = """\
examples:
  soak check --store redis-list --duration 60s
  soak check --store http --subject agno-redis          a library, started behind HTTP with the Redis it needs
  soak check --store postgres --faults recovery --fault-every 15s
  soak check --store mypackage.memory:Memory --users 20 --json"""

STEP_SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Where GitHub Actions wants Markdown that it shows with a run."""
NAME = "check"
DEFAULTS = COMMAND_DEFAULTS[NAME]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the temporary data folder after a pass, too")
    add_output_arguments(parser)
    add_flags(parser, SOAKING)


def execute(arguments: argparse.Namespace) -> ExitCode:
    if DATA_DIR.destination in vars(arguments):
        return _check(_configuration(arguments), arguments)
    # Whatever is wrong with the settings is said before a folder is made.
    _configuration(arguments)
    folder = Path(tempfile.mkdtemp(prefix="soak-check-"))
    kept = True
    try:
        code = _check(_configuration(arguments, {"data_dir": str(folder)}), arguments)
        kept = arguments.keep or code is not ExitCode.PASS
    except SoakError as error:
        # It did not even begin: there is nothing in the folder to look at.
        kept = False
        raise error from None
    finally:
        _settle(folder, arguments, kept=kept)
    return code


def _configuration(arguments: argparse.Namespace, overrides: Mapping[str, object] | None = None) -> Configuration:
    return read_configuration(arguments, command=NAME, command_defaults=DEFAULTS, overrides=overrides)


def _check(configuration: Configuration, arguments: argparse.Namespace) -> ExitCode:
    outcome = soak(configuration, arguments)
    if (path := os.environ.get(STEP_SUMMARY_VARIABLE)) and configuration.settings.report.step_summary:
        append_step_summary(outcome, path)
    return ExitCode(outcome.exit_code)


def _settle(folder: Path, arguments: argparse.Namespace, *, kept: bool) -> None:
    if kept:
        stream = sys.stderr if arguments.json else sys.stdout
        stream.write(f"  data folder: {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
