"""`soak config`: the effective settings, and where each came from."""

from __future__ import annotations

import argparse

import msgspec

from soak.commands.flags import SOAKING, add_flags, add_wide, read_configuration
from soak.errors import ExitCode
from soak.report.text import print_json, print_table

DESCRIPTION = "Print every setting with its value and its source. Passwords are masked."
EPILOG = "example: SOAK_LOAD__USERS=5 soak config --duration 8h"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_wide(parser)
    add_flags(parser, SOAKING)


def execute(arguments: argparse.Namespace) -> ExitCode:
    leaves = read_configuration(arguments).leaves()
    if arguments.json:
        values = {leaf.key: {"value": leaf.value, "from": leaf.origin} for leaf in leaves}
        print_json(msgspec.json.encode(values))
    else:
        print_table(
            ("key", "value", "from"), [(leaf.key, leaf.text, leaf.origin) for leaf in leaves], is_wide=arguments.wide
        )
    return ExitCode.PASS
