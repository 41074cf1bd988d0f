"""`soak selftest`: plants each flaw and its correct twin, and shows that the one is found and the other left alone."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

import msgspec

from soak.errors import ExitCode, UsageError
from soak.flaws import catalogue
from soak.report.text import table_lines
from soak.scenarios.selftest.scenario import Pace
from soak.scenarios.selftest.trial import SIDE_BY_SIDE, FlawTrial, make_trials
from soak.scenarios.terminal import print_results

DESCRIPTION = (
    "Run each planted flaw on real servers and check that it is found, with the right kind and cause. Its correct\n"
    "twin runs under the same load and fault, and must have no violation. Time to detect counts from the first\n"
    "moment the wrong state could be read: an upper bound."
)
EPILOG = """\
examples:
  soak selftest                              all of them, in a few minutes
  soak selftest lossy_text read_cap
  soak selftest --json > selftest.json
  soak selftest --topologies                 failovers of Cluster, Sentinel and PostgreSQL; takes longer
  soak selftest --as-shipped                 how soon a soak with default settings finds them; takes longer

exit codes: 0 all found and all twins silent, 1 otherwise, 2 no such flaw, 4 interrupted"""

HEADS = ("flaw", "expected", "found", "detected in", "affected", "probable cause", "twin", "verdict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="flaws to plant; all unless given, see 'soak flaws'")
    parser.add_argument(
        "--topologies", action="store_true", help="those that need groups of nodes and so take longer, and no others"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument(
        "--as-shipped",
        action="store_true",
        help="with the verifier's default settings, not with those that make a trial short",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=SIDE_BY_SIDE, help=f"trials side by side ({SIDE_BY_SIDE} unless given)"
    )


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.names and arguments.topologies:
        raise UsageError("--topologies chooses flaws, and so do names; give one of them")
    every = catalogue.TOPOLOGIES if arguments.topologies else catalogue.ALL
    flaws = [catalogue.find(name) for name in dict.fromkeys(arguments.names)] or list(every.values())
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: should be at least 1")
    pace = Pace.AS_SHIPPED if arguments.as_shipped else Pace.QUICK
    made = make_trials(flaws, arguments.jobs, pace)
    if made is None:
        return ExitCode.INCONCLUSIVE
    trials, seconds = made
    print_results(arguments, as_json(trials, seconds, pace), report_lines(trials, seconds, pace))
    return ExitCode.PASS if all(trial.passed for trial in trials) else ExitCode.VIOLATION


def _found(trial: FlawTrial) -> str:
    """Return what it was found as: "affected" counts the expected kinds alone."""
    found = [*(kind for kind in trial.found_kinds if kind in trial.expected_kinds), *trial.found_kinds]
    return found[0] if found else "-"


def _detected(trial: FlawTrial) -> str:
    return "-" if trial.seconds_to_detect is None else f"{trial.seconds_to_detect:.1f} s"


def _twin(trial: FlawTrial) -> str:
    if not trial.twin_verdict:
        return "-"
    silent = "silent" if trial.twin_verdict == "pass" else trial.twin_verdict.upper()
    return f"{silent}, {trial.twin_verified:,} verified"


def report_lines(trials: Sequence[FlawTrial], seconds: float, pace: Pace = Pace.QUICK) -> list[str]:
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
    times = seconds_to_detect(trials)
    settings = " with the settings as shipped" if pace is Pace.AS_SHIPPED else ""
    worst = f", worst {max(times):.1f} s" if len(times) > 1 else ""
    shown = f"; median time to detect{settings} {statistics.median(times):.1f} s{worst}" if times else ""
    found = f"{len(trials) - len(failed)} of {len(trials)} flaws found with their twins silent{shown}; {seconds:.0f} s"
    return [*table_lines(HEADS, rows), "", *complaints, *([""] if complaints else []), found]


def seconds_to_detect(trials: Sequence[FlawTrial]) -> list[float]:
    """Return the times to detect of those that were detected."""
    return [trial.seconds_to_detect for trial in trials if trial.seconds_to_detect is not None]


def as_json(trials: Sequence[FlawTrial], seconds: float, pace: Pace = Pace.QUICK) -> dict[str, object]:
    times = seconds_to_detect(trials)
    return {
        "passed": all(trial.passed for trial in trials),
        "seconds": round(seconds, 3),
        "settings": pace.value,
        "median_seconds_to_detect": statistics.median(times) if times else None,
        "worst_seconds_to_detect": max(times, default=None),
        "trials": [{"passed": trial.passed, **msgspec.to_builtins(trial)} for trial in trials],
    }
