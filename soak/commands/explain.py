"""`soak explain`: the story of one violation."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.story import as_dict
from soak.report.story_text import print_story
from soak.report.text import PLAIN_WIDTH, OutputConsole, plain, print_json
from soak.report.violation_records import ViolationRecord, read_violations, resolve
from soak.verifier import evidence_file
from soak.verifier.evidence_file import EvidenceFile, UnreadableEvidenceError
from soak.verifier.findings import FindingResult

DESCRIPTION = (
    "Explain one violation, or a finding's clearest example: probable cause with the facts for and against it,\n"
    "timeline, neighbours, stored bytes, faults, server telemetry, and the broken clause of the contract."
)
EPILOG = """\
examples:
  soak explain 1f0c2a7be9d4                     an id, or its beginning, from 'soak violations'
  soak explain 1f0c --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a finding, a violation or a message, as 'soak violations' lists it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    record, finding = resolve(data_dir, arguments.id)
    others = read_violations(data_dir).found
    try:
        file = evidence_file.read(record.evidence) if record.evidence is not None else None
    except UnreadableEvidenceError as error:
        raise UsageError(str(error)) from error
    if arguments.json:
        print_json(
            msgspec.json.encode(as_dict(record, file, others) | ({"finding": finding} if finding is not None else {}))
        )
        return ExitCode.PASS
    terminal = OutputConsole()
    if terminal.is_terminal:
        _tell(record, file, finding, others, terminal)
    else:
        page = io.StringIO()
        _tell(record, file, finding, others, Console(file=page, highlight=False, width=PLAIN_WIDTH))
        sys.stdout.write("".join(line.rstrip() + "\n" for line in page.getvalue().splitlines()))
    return ExitCode.PASS


def _tell(
    record: ViolationRecord,
    file: EvidenceFile | None,
    finding: FindingResult | None,
    others: Sequence[ViolationRecord],
    console: Console,
) -> None:
    if finding is not None:
        console.print(Text(plain(finding.dated_headline), style="bold red"))
        console.print(Text("Its clearest example:\n", style="dim"))
    print_story(record, file, console, others)
