"""`soak runs`: the runs of a data folder, the present one and those put aside."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.duration import format_seconds
from soak.errors import ExitCode, UsageError
from soak.report.outcome import RunOutcome
from soak.report.run_report import folders_of_runs, is_running, read_outcome
from soak.report.text import clock, print_json, print_table

DESCRIPTION = (
    "List the runs of a data folder: the one that runs or ran last there, then earlier ones, which are kept in its\n"
    "folder 'runs'. A run without a verdict is running, or was interrupted."
)
EPILOG = """\
examples:
  soak runs
  soak runs --data-dir /var/lib/soak --json | jq '.[] | select(.verdict == "violation")'
  soak page r1a2b3c4d               open the page of one
  soak report r1a2b3c4d             report one"""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, for machines."""

    run: str
    state: str
    """`finished`, `running`, `interrupted`, or `damaged`: nothing more is known of it."""
    verdict: str = ""
    began_wall_seconds: float | None = None
    lasted_seconds: float | None = None
    stores: list[str] = []
    violations: int | None = None
    folder: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    listed = [one for folder in folders_of_runs(data_dir) if (one := _listed(folder, data_dir)) is not None]
    if arguments.json:
        print_json(msgspec.json.encode(listed))
    elif listed:
        print_table(("run", "verdict", "violations", "began", "lasted", "stores"), [_row(one) for one in listed])
    else:
        sys.stdout.write(f"no runs in {data_dir}\n")
    return ExitCode.PASS


def _listed(folder: Path, data_dir: Path) -> ListedRun | None:
    try:
        outcome = read_outcome(folder)
    except UsageError:  # of a newer soak
        return ListedRun(run=folder.name, state="damaged", folder=str(folder))
    if outcome is not None:
        return _of(outcome, folder)
    # A folder put aside held a run, even where nothing of it can be read.
    return ListedRun(run=folder.name, state="damaged", folder=str(folder)) if folder != data_dir else None


def _of(outcome: RunOutcome, folder: Path) -> ListedRun:
    result, setup = outcome.result, outcome.setup
    stores = [one.store for one in result.by_store] if result is not None else []
    state = "finished" if outcome.finished else "running" if is_running(folder, outcome.run) else "interrupted"
    return ListedRun(
        run=outcome.run,
        state=state,
        verdict=outcome.verdict,
        began_wall_seconds=None if result is None else result.started_wall_seconds,
        lasted_seconds=None if result is None else result.ended_wall_seconds - result.started_wall_seconds,
        stores=stores or (setup.stores if setup is not None else []),
        violations=None if result is None else result.totals.violations,
        folder=str(folder),
    )


def _row(one: ListedRun) -> tuple[str, ...]:
    verdict = one.verdict if one.state == "finished" else f"{one.state}, {one.verdict}" if one.verdict else one.state
    return (
        one.run,
        verdict.removesuffix(", undecided"),
        "-" if one.violations is None else f"{one.violations:,}",
        "-" if one.began_wall_seconds is None else clock(one.began_wall_seconds),
        "-" if one.lasted_seconds is None else format_seconds(one.lasted_seconds),
        ", ".join(one.stores),
    )
