"""`soak compare`: two runs side by side, such as that of a pull request and the last one of the main branch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report import outcome as outcomes
from soak.report.comparison import compare
from soak.report.comparison_text import as_html, as_markdown, as_text
from soak.report.formats import FILE_NAMES, check_writable
from soak.report.outcome import RunOutcome
from soak.report.run_report import find_folder, gather
from soak.report.text import print_json
from soak.verifier.result import decode_file

DESCRIPTION = (
    "Compare two runs: findings that are new, gone or the same (by store, kind and probable cause), share lost,\n"
    "latency percentiles, recovery times and thresholds. A run is a data folder, a folder of reports, a result.json\n"
    "or report.json, or the name of a run in --data-dir. Only the stores that both have are compared."
)
EPILOG = """\
examples:
  soak compare main/report.json .soak
  soak compare r1a2b3c4d r5e6f7g8h --markdown "$GITHUB_STEP_SUMMARY"
  soak compare main-report soak-report --html compare.html --json

exit codes: 0 the same or better, 1 the second run has new findings, 2 usage, or no store in common,
4 the second run is inconclusive, 6 it newly misses a threshold"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="RUN", help="the run to compare with")
    parser.add_argument("after", metavar="RUN", help="the run to judge")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write it as Markdown to this file")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write it as a page to this file")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    check_writable({path: "" for path in (arguments.markdown, arguments.html) if path is not None})
    comparison = compare(*(_read(data_dir, run) for run in (arguments.before, arguments.after)))
    for path, render in ((arguments.markdown, as_markdown), (arguments.html, as_html)):
        if path is not None:
            path.write_text(render(comparison), encoding="utf-8")
    if arguments.json:
        print_json(msgspec.json.encode(comparison))
    else:
        sys.stdout.write(as_text(comparison))
    return ExitCode(comparison.exit_code)


def _read(data_dir: Path, run: str) -> RunOutcome:
    path = Path(run)
    report = path / FILE_NAMES["json"]
    if report.is_file() and not (path / outcomes.FILE_NAME).exists():
        path = report
    if not path.is_file():
        return gather(find_folder(data_dir, run)).outcome
    found = decode_file(path, RunOutcome, outcomes.SCHEMA)
    if found is None:
        raise UsageError(f"{path} is no result of a soak; name a data folder, its result.json or a report.json")
    return found
