"""`soak explain`: the story of one violation."""

from __future__ import annotations

import argparse
import io
import sys

import msgspec
from rich.console import Console

from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.page import Page
from soak.report.recorded import find
from soak.report.table import print_json
from soak.report.telling import as_dict, tell
from soak.verifier import evidence_file
from soak.verifier.evidence_file import UnreadableEvidenceError

DESCRIPTION = (
    "Tell the story of one violation: what happened when, what stands around it, its bytes, the faults, what the\n"
    "servers said of themselves, the promise it breaks, and the probable cause with the facts for and against it."
)
EPILOG = """\
examples:
  soak explain 1f0c2a7be9d4                     an id, or its beginning, from 'soak violations'
  soak explain 1f0c --json"""

PLAIN_WIDTH = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the violation, as 'soak violations' lists it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    record = find(read_configuration(arguments).settings.data_dir, arguments.id)
    try:
        file = evidence_file.read(record.evidence) if record.evidence is not None else None
    except UnreadableEvidenceError as error:
        raise UsageError(str(error)) from error
    if arguments.json:
        print_json(msgspec.json.encode(as_dict(record, file)))
        return ExitCode.PASS
    terminal = Page()
    if terminal.is_terminal:
        tell(record, file, terminal)
    else:
        page = io.StringIO()
        tell(record, file, Console(file=page, highlight=False, width=PLAIN_WIDTH))
        sys.stdout.write("".join(line.rstrip() + "\n" for line in page.getvalue().splitlines()))
    return ExitCode.PASS
