"""`soak flaws`: the planted bugs, and the incident behind each of them."""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
import textwrap

import msgspec

from soak.commands.flags import add_wide
from soak.errors import ExitCode
from soak.flaws import catalogue
from soak.flaws.flaw import Flaw, FlawSetup
from soak.flaws.served import SERVICES
from soak.report.text import print_json, print_table
from soak.stores import registry

DESCRIPTION = (
    "List the planted flaws that 'soak selftest' must find, or show one: the incident, the code, why its tests were\n"
    "green, and what the user saw."
)
EPILOG = """\
examples:
  soak flaws
  soak flaws show whole_history_overwrite
  soak selftest whole_history_overwrite    plant it, and see it found"""

_SHOW_EPILOG = """\
examples:
  soak flaws show whole_history_overwrite
  soak flaws show lru_eviction --json"""

_WIDTH_MAX = 100
_EVERY = {**catalogue.ALL, **catalogue.TOPOLOGIES}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "soak flaws [-h] [--json] [--wide] [show NAME]"
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_wide(parser)
    actions = parser.add_subparsers(prog="soak flaws", metavar="show NAME", dest="action")
    story = "tell the story of one flaw, with the source of the wrong store"
    show = actions.add_parser(
        "show",
        help=story,
        description=f"{story[0].upper()}{story[1:]}.",
        epilog=_SHOW_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    show.add_argument("name", metavar="NAME", help="as 'soak flaws' lists it")
    show.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.action == "show":
        flaw = catalogue.find(arguments.name)
        if arguments.json:
            print_json(msgspec.json.encode({**_described(flaw), "source": _source(flaw.wrong)}))
        else:
            sys.stdout.write(_story(flaw))
    elif arguments.json:
        print_json(msgspec.json.encode({name: _described(flaw) for name, flaw in _EVERY.items()}))
    else:
        print_table(
            ("flaw", "found as", "incident"),
            [(flaw.name, _kinds(flaw), flaw.incident) for flaw in _EVERY.values()],
            is_wide=arguments.wide,
        )
    return ExitCode.PASS


def _kinds(flaw: Flaw) -> str:
    return " / ".join(sorted(kind.value for kind in flaw.kinds))


def _causes(flaw: Flaw) -> str:
    return " or ".join(sorted(cause.value for cause in flaw.causes))


def _described(flaw: Flaw) -> dict[str, object]:
    return {
        "incident": flaw.incident,
        "code": flaw.code,
        "mocks": flaw.mocks,
        "user": flaw.user,
        "kinds": sorted(kind.value for kind in flaw.kinds),
        "causes": sorted(cause.value for cause in flaw.causes),
        "wrong": flaw.wrong,
        "twin": flaw.right,
        "load": flaw.load,
    }


def _story(flaw: Flaw) -> str:
    parts = [
        f"{flaw.name}: {flaw.incident}",
        _told("the code", flaw.code),
        _told("the tests", flaw.mocks),
        _told("the user", flaw.user),
        _told("found as", f"{_kinds(flaw)}; probable cause: {_causes(flaw)}"),
        _told("the fault it needs", _fault(flaw.wrong)),
        _told("its correct twin", _setup(flaw.right)),
        _told("the wrong one", _setup(flaw.wrong)),
        textwrap.indent(_source(flaw.wrong), "    "),
    ]
    return "\n".join(parts).rstrip() + f"\n\nsoak selftest {flaw.name}\n"


def _told(head: str, text: str) -> str:
    width = min(_WIDTH_MAX, shutil.get_terminal_size((_WIDTH_MAX, 0)).columns)
    return f"\n{head}:\n" + textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ")


def _fault(setup: FlawSetup) -> str:
    fault = setup.fault
    if fault is None:
        return "none"
    return f"{fault.fault} of {fault.target}, for {fault.hold_seconds:g} s"


def _setup(setup: FlawSetup) -> str:
    options = {**setup.servers.redis_options, **setup.servers.postgres_options}
    configured = "".join(f", {name} {value or '(empty)'}" for name, value in options.items())
    fault = f", under {_fault(setup)}" if setup.fault is not None else ""
    served = f" of the service {setup.servers.service}" if setup.servers.service else ""
    derived = ", with the contract that follows from its server" if setup.derives_contract else ""
    return setup.store + served + configured + derived + fault


def _source(setup: FlawSetup) -> str:
    if setup.servers.service:
        # A process of its own is a script, and all of it is the story.
        return (SERVICES / f"{setup.servers.service}.py").read_text(encoding="utf-8")
    return inspect.getsource(registry.find(setup.store).factory)
