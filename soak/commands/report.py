"""`soak report`: how a run went, in any format; it may still run, have ended, or have been killed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.formats import FILE_NAMES, FORMATS, check_writable, write_reports
from soak.report.run_report import find_folder, gather
from soak.report.summary import print_summary, summary_console
from soak.suggestion import did_you_mean

DESCRIPTION = (
    "Report a run that is running, has ended or was killed. Without a format, print it to the terminal.\n"
    "With --output-dir, write all formats, or those that are named."
)
EPILOG = f"""\
files in --output-dir: {", ".join(FILE_NAMES.values())}

examples:
  soak report                                   the run in .soak, on the terminal
  soak report --format html > report.html
  soak report --format junit --format markdown --output-dir reports
  soak report r1a2b3c4d --output-dir reports    a run that was put aside, by its name
  soak report /tmp/soak-check-x7 --exit-code    answer with the verdict of the run"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN_OR_FOLDER", nargs="?", help="a data folder, or a run in --data-dir (default: the latest)"
    )
    parser.add_argument(
        "--format", metavar="FORMAT", action="append", help=f"{', '.join(FORMATS)}; may be repeated with --output-dir"
    )
    parser.add_argument("--output-dir", metavar="FOLDER", type=Path, help="write files into this folder")
    parser.add_argument(
        "--exit-code", action="store_true", help="answer with the exit code of the run (4 while it is undecided)"
    )
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.run in FORMATS and not Path(arguments.run).exists():
        raise UsageError(f"{arguments.run} is a format; write --format {arguments.run}")
    formats = list(dict.fromkeys(arguments.format or ()))
    if unknown := [name for name in formats if name not in FORMATS]:
        otherwise = f"choose from {', '.join(FORMATS)}"
        raise UsageError(f"--format {unknown[0]}: {did_you_mean(unknown[0], FORMATS, otherwise)}")
    if len(formats) > 1 and arguments.output_dir is None:
        raise UsageError("several formats need a folder to be written into; name one with --output-dir")
    data_dir = read_configuration(arguments).settings.data_dir
    report = gather(find_folder(data_dir, arguments.run))
    if arguments.output_dir is not None:
        targets = {arguments.output_dir / FILE_NAMES[name]: name for name in formats or FORMATS}
        check_writable(targets)
        write_reports(report, targets)
        sys.stdout.write("".join(f"{path}\n" for path in targets))
    elif formats:
        sys.stdout.write(FORMATS[formats[0]](report))
    else:
        console = summary_console()
        print_summary(report.outcome, console)
        if report.state != "finished":
            console.print(f"  it is {report.state}: this is how it stood", highlight=False)
    if not arguments.exit_code:
        return ExitCode.PASS
    code = report.outcome.exit_code
    return ExitCode(code) if code in set(ExitCode) else ExitCode.INCONCLUSIVE
