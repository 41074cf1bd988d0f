"""`soak run`: servers, load and verifier, until Ctrl-C or the given duration."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.console import Console

from soak.browsing.chromium import find_chromium
from soak.commands.flags import SOAKING, add_flags, read_configuration
from soak.configuration import Configuration
from soak.daemon.reproduce import COMMAND_DEFAULTS
from soak.daemon.run import run_soak
from soak.daemon.view import LiveView, PlainView, View
from soak.errors import ExitCode, SoakError
from soak.report import markdown
from soak.report.formats import FORMATS, check_writable, parse_targets, write_reports
from soak.report.outcome import RunOutcome
from soak.report.run_report import gather
from soak.report.summary import print_outcome_json, print_summary, summary_console

DESCRIPTION = (
    "Start servers, load and verifier, and supervise them. Ctrl-C drains and gives the verdict; a second Ctrl-C quits\n"
    "immediately. A run whose daemon was killed is resumed by the next 'soak run' in its folder, with the settings it\n"
    "was begun with; --fresh puts it aside. Servers that soak started are restarted and killed on a schedule\n"
    "(--faults none: never); yours are not touched."
)
EPILOG = """\
examples:
  soak run
  soak run --store redis-stream --store postgres --users 200 --duration 8h
  soak run --redis redis://staging:6379/3 --store redis-list --data-dir /var/lib/soak
  soak run --store http --subject ./my_subject.py       a memory service, started and broken like any server
  soak run --faults chaos --fault-every 30s
  soak run --faults none --fault crash:redis:every=1m,hold=5s
  soak run --no-load                     and then: locust -f locustfiles/sessions.py
  soak run --set contract.redis-list.preset=redis-everysec"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="put an interrupted run aside in place of resuming it")
    parser.add_argument("--no-load", action="store_true", help="start no Locust: one that you start joins")
    add_output_arguments(parser)
    add_flags(parser, SOAKING)


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments, command_defaults=COMMAND_DEFAULTS["run"])
    outcome = soak(configuration, arguments, with_load=not arguments.no_load, is_fresh=arguments.fresh)
    return ExitCode(outcome.exit_code)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plain", action="store_true", help="plain lines, also on a terminal")
    parser.add_argument("--json", action="store_true", help="print the result as JSON; all else goes to standard error")
    parser.add_argument(
        "--report",
        metavar="FORMAT=PATH",
        action="append",
        default=[],
        help=f"write a report at the end, however it ends: {', '.join(FORMATS)}; may be repeated",
    )
    parser.add_argument(
        "--report-dir", metavar="FOLDER", type=Path, help="write reports in all formats into this folder"
    )


def soak(
    configuration: Configuration, arguments: argparse.Namespace, *, with_load: bool = True, is_fresh: bool = False
) -> RunOutcome:
    """Run a soak, print its outcome, and write the reports that were asked for."""
    targets = parse_targets(arguments.report, arguments.report_dir)
    check_writable(targets)
    load = configuration.settings.load
    if with_load and load.browser_users:
        find_chromium(load.browser)
    view = _view(arguments)
    try:
        outcome = asyncio.run(run_soak(configuration, view, with_load=with_load, is_fresh=is_fresh))
    finally:
        view.close()
    try:
        if arguments.json:
            print_outcome_json(outcome)
        else:
            print_summary(outcome, summary_console())
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe is gone; the exit code still has the verdict.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _reported(outcome, targets)


def append_step_summary(outcome: RunOutcome, path: str) -> None:
    """Add the report to the summary of a step in GitHub Actions; that it could not be is no reason to fail."""
    text = markdown.render(gather(Path(outcome.data_dir), outcome))
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        sys.stderr.write(f"soak: the summary cannot be written to {path} ({error.strerror})\n")


def _reported(outcome: RunOutcome, targets: Mapping[Path, str]) -> RunOutcome:
    if not targets:
        return outcome
    try:
        write_reports(gather(Path(outcome.data_dir), outcome), targets)
    except SoakError as error:
        sys.stderr.write(f"soak: {error}\n")
        # A missing report must not be taken for a pass.
        if outcome.exit_code == ExitCode.PASS:
            return msgspec.structs.replace(outcome, exit_code=int(ExitCode.INTERNAL))
    return outcome


def _view(arguments: argparse.Namespace) -> View:
    stream = sys.stderr if arguments.json else sys.stdout
    if arguments.plain or not stream.isatty():
        return PlainView(stream)
    return LiveView(Console(file=stream))
