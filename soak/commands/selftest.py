"""`soak selftest`: plants each flaw and its correct twin, and shows that the one is found and the other left alone."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

import msgspec

from soak.errors import ExitCode, UsageError
from soak.flaws import catalogue
from soak.report.progress import Progress
from soak.report.table import print_json, table_lines
from soak.selftest.result import Trial
from soak.selftest.trials import SIDE_BY_SIDE, make_trials

DESCRIPTION = (
    "Plant each flaw on real servers, soak it, and see whether it is found: as the kind it is, with the cause it has.\n"
    "Its correct twin is soaked under the same load and the same fault, and must be left alone. Time to detect counts\n"
    "from the first moment the wrong state could be read: an upper bound."
)
EPILOG = """\
examples:
  soak selftest                              all of them, in a few minutes
  soak selftest lossy_text read_cap
  soak selftest --json > selftest.json

exit codes: 0 all found and all twins silent, 1 otherwise, 2 no such flaw, 4 interrupted"""

HEADS = ("flaw", "expected", "found", "detected in", "affected", "probable cause", "twin", "verdict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="flaws to plant; all unless given, see 'soak flaws'")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=SIDE_BY_SIDE, help=f"trials side by side ({SIDE_BY_SIDE} unless given)"
    )


def execute(arguments: argparse.Namespace) -> ExitCode:
    flaws = [catalogue.find(name) for name in dict.fromkeys(arguments.names)] or list(catalogue.ALL.values())
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: should be at least 1")
    begun = time.monotonic()
    progress = Progress(len(flaws))
    try:
        trials = asyncio.run(make_trials(flaws, progress, arguments.jobs))
    except KeyboardInterrupt:
        sys.stderr.write("soak: interrupted; all trials were ended, and nothing is proved\n")
        return ExitCode.INCONCLUSIVE
    finally:
        progress.clear()
    seconds = time.monotonic() - begun
    if arguments.json:
        print_json(msgspec.json.encode(as_json(trials, seconds)))
    else:
        sys.stdout.write("\n".join(report_lines(trials, seconds)) + "\n")
    return ExitCode.PASS if all(trial.passed for trial in trials) else ExitCode.VIOLATION


def _found(trial: Trial) -> str:
    return next(iter(trial.found_kinds), "-")


def _detected(trial: Trial) -> str:
    return "-" if trial.seconds_to_detect is None else f"{trial.seconds_to_detect:.1f} s"


def _twin(trial: Trial) -> str:
    if not trial.twin_verdict:
        return "-"
    silent = "silent" if trial.twin_verdict == "pass" else trial.twin_verdict.upper()
    return f"{silent}, {trial.twin_verified:,} verified"


def report_lines(trials: Sequence[Trial], seconds: float) -> list[str]:
    """Make the table, what went wrong under it, and the sum in the last line."""
    rows = [
        (
            trial.flaw,
            " / ".join(trial.expected_kinds),
            _found(trial),
            _detected(trial),
            f"{trial.affected:,}",
            trial.cause or "-",
            _twin(trial),
            "found" if trial.passed else "FAILED",
        )
        for trial in trials
    ]
    failed = [trial for trial in trials if not trial.passed]
    complaints = [f"{trial.flaw}: {failure}" for trial in failed for failure in trial.failures]
    median = median_seconds_to_detect(trials)
    shown = "" if median is None else f"; median time to detect {median:.1f} s"
    found = f"{len(trials) - len(failed)} of {len(trials)} flaws found with their twins silent{shown}; {seconds:.0f} s"
    return [*table_lines(HEADS, rows), "", *complaints, *([""] if complaints else []), found]


def median_seconds_to_detect(trials: Sequence[Trial]) -> float | None:
    known = [trial.seconds_to_detect for trial in trials if trial.seconds_to_detect is not None]
    return statistics.median(known) if known else None


def as_json(trials: Sequence[Trial], seconds: float) -> dict[str, object]:
    return {
        "passed": all(trial.passed for trial in trials),
        "seconds": round(seconds, 3),
        "median_seconds_to_detect": median_seconds_to_detect(trials),
        "trials": [{"passed": trial.passed, **msgspec.to_builtins(trial)} for trial in trials],
    }
