"""`soak run`: servers, load and verifier, until Ctrl-C or the given duration."""

from __future__ import annotations

import argparse

from soak.commands.flags import SOAKING, add_flags, read_configuration
from soak.commands.soaking import add_output_arguments, soak
from soak.errors import ExitCode

DESCRIPTION = (
    "Start what is needed, load it, verify it, and supervise all of that. Ctrl-C drains and gives the verdict,\n"
    "a second one leaves at once. A run whose daemon was killed is resumed by the next 'soak run' in its folder.\n"
    "Servers that soak started are restarted and killed on a schedule (--faults none: never); yours are not touched."
)
EPILOG = """\
examples:
  soak run
  soak run --store redis-stream --store postgres --users 200 --duration 8h
  soak run --redis redis://staging:6379/3 --store redis-list --data-dir /var/lib/soak
  soak run --store http --subject ./my_subject.py       a memory service, started and broken like any server
  soak run --faults chaos --fault-every 30s
  soak run --faults none --fault crash:redis:every=1m,hold=5s
  soak run --no-load                     and then: locust -f locustfiles/sessions.py
  soak run --set contract.redis-list.preset=redis-everysec"""


DEFAULTS = {"faults.preset": "auto"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-load", action="store_true", help="start no Locust: one that you start joins")
    add_output_arguments(parser)
    add_flags(parser, SOAKING)


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments, command_defaults=DEFAULTS)
    outcome = soak(configuration, arguments, with_load=not arguments.no_load)
    return ExitCode(outcome.exit_code)
