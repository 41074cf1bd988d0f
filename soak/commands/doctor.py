"""`soak doctor`: what this machine has and lacks."""

from __future__ import annotations

import argparse

import msgspec

from soak.commands.flags import DATA_DIR, HTTP, SERVERS, add_flags, add_wide, read_configuration
from soak.doctor import MachineCheck, examine, lacks_something_needed
from soak.errors import ExitCode
from soak.report.text import print_json, print_table

DESCRIPTION = (
    "Check everything soak can use on this machine. Exit code 3 if something that 'soak run' needs is missing."
)
EPILOG = "example: soak doctor --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_wide(parser)
    add_flags(parser, (DATA_DIR, *HTTP, *SERVERS))


def execute(arguments: argparse.Namespace) -> ExitCode:
    findings = examine(read_configuration(arguments).settings)
    if arguments.json:
        print_json(msgspec.json.encode(findings))
    else:
        rows = [_row(finding) for finding in findings]
        print_table(("", "what", "found", "effect if missing"), rows, is_wide=arguments.wide)
    return ExitCode.UNREACHABLE if lacks_something_needed(findings) else ExitCode.PASS


def _row(finding: MachineCheck) -> tuple[str, str, str, str]:
    if finding.present:
        return ("ok", finding.name, finding.found, "")
    return ("LACKS" if finding.needed else "lacks", finding.name, finding.found, finding.meaning)
