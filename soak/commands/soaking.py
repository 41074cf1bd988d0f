"""What `soak run` and `soak check` share: the view, the run itself, and its end."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from rich.console import Console

from soak.configuration import Configuration
from soak.daemon.run import RunOptions, run_soak
from soak.daemon.view import LiveView, PlainView, View
from soak.report.outcome import Outcome
from soak.report.summary import print_outcome_json, print_summary, summary_console


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plain", action="store_true", help="plain lines, also on a terminal")
    parser.add_argument("--json", action="store_true", help="print the result as JSON; all else goes to standard error")


def soak(configuration: Configuration, options: RunOptions, arguments: argparse.Namespace) -> Outcome:
    """Run a soak and tell how it ended."""
    view = _view(arguments)
    try:
        outcome = asyncio.run(run_soak(configuration, options, view))
    finally:
        view.close()
    try:
        if arguments.json:
            print_outcome_json(outcome)
        else:
            print_summary(outcome, summary_console())
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads any more; the exit code still tells the verdict.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return outcome


def _view(arguments: argparse.Namespace) -> View:
    stream = sys.stderr if arguments.json else sys.stdout
    if arguments.plain or not stream.isatty():
        return PlainView(stream)
    return LiveView(Console(file=stream))
