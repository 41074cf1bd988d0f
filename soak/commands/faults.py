"""`soak faults`: what can be broken, what that does, how it can be set, and whether it is possible here."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from soak.checker.faults import Excuse
from soak.commands.flags import DATA_DIR, add_flags, add_wide, read_configuration
from soak.configuration import Configuration
from soak.errors import ExitCode, UsageError
from soak.faults.catalogue import FaultListing, fault_named, listing
from soak.faults.fault import Fault
from soak.faults.presets import RECIPES, Possible
from soak.json_input import decode_json
from soak.report.text import defined, print_json, print_table, terminal_width
from soak.servers.power_cut import PowerCutWay

DESCRIPTION = (
    "List every fault and what it does, or document one. The soak running in the data folder says which are possible\n"
    "there; without one, --try starts servers for some seconds to find out."
)
EPILOG = """\
examples:
  soak faults
  soak faults show latency                       what it does and needs, its parameters, what it excuses
  soak faults --try                              which are possible on this machine
  soak faults --presets                          schedules by name, for 'preset = "…"' in [faults]
  soak faults --json"""

MAY_LOSE = {
    Excuse.NOTHING: "nothing that was acknowledged",
    Excuse.CLEAN: "nothing that was acknowledged, unless the contract is of a store that keeps nothing",
    Excuse.CRASH: "the tail that the contract allows a crash",
    Excuse.POWER: "the tail that the contract allows a power cut",
    Excuse.FAILOVER: "the tail that the contract allows a failover",
}
_EXAMPLES_MAX = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", metavar="show", help="document one fault")
    parser.add_argument("fault", nargs="?", metavar="FAULT", help="for 'show': its name")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--presets", action="store_true", help="list the schedules that have a name instead")
    parser.add_argument("--try", dest="is_tried", action="store_true", help="start servers to see what is possible")
    add_wide(parser)
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments)
    if arguments.action is not None:
        _show(arguments)
    elif arguments.presets:
        _print_presets(as_json=arguments.json, is_wide=arguments.wide)
    else:
        _list(configuration, arguments)
    return ExitCode.PASS


# One -----------------------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace) -> None:
    if arguments.action != "show" or arguments.fault is None:
        raise UsageError("name the fault to document, as in: soak faults show latency")
    fault = fault_named(arguments.fault)
    if arguments.json:
        (listed,) = [one for one in listing({}) if one.fault == fault.name]
        print_json(msgspec.json.encode(listed))
        return
    width = None if arguments.wide else terminal_width()
    parts = [[fault.name, *defined([("", fault.description)], width)], _facts(fault, width), _parameters(fault, width)]
    sys.stdout.write("\n\n".join("\n".join(part) for part in (*parts, _examples(fault, width))) + "\n")


def _facts(fault: Fault, width: int | None) -> list[str]:
    facts = [("happens to", ", ".join(fault.targets)), ("needs", fault.needs), ("may lose", MAY_LOSE[fault.excuses])]
    return defined(facts, width)


def _parameters(fault: Fault, width: int | None) -> list[str]:
    known = [
        (name, f"{one.help} ({one.unit}, {one.range}; default: {one.text(one.default)})")
        for name, one in fault.parameters().items()
    ]
    return ["parameters:", *defined(known, width)] if known else ["  it has no parameters"]


def _examples(fault: Fault, width: int | None) -> list[str]:
    target = fault.targets[0]
    values = list(fault.values.items())[:_EXAMPLES_MAX]
    flags = " ".join(f"--{name} {value}" for name, value in values)
    options = "".join(f",{name}={value}" for name, value in values)
    commands = [
        (f"  soak inject {fault.name} {target} --hold 10s", flags),
        ("  soak check --faults none", f"--fault {fault.name}:{target}:every=1m,hold=10s{options}"),
    ]
    lines = ["examples:"]
    for command, rest in commands:
        whole = f"{command} {rest}".rstrip()
        lines += [whole] if width is None or len(whole) <= width else [f"{command} \\", f"   {rest}"]
    return lines


# All -----------------------------------------------------------------------------------------------------------------


def _list(configuration: Configuration, arguments: argparse.Namespace) -> None:
    faults = _from_the_soak(configuration)
    if faults is None and (arguments.is_tried or arguments.json):
        faults = _from_servers(configuration)
    if arguments.json:
        print_json(msgspec.json.encode(faults))
    elif faults is None:
        rows = [
            (one.name, ", ".join(one.parameters()) or "-", one.description)
            for one in map(fault_named, (listed.fault for listed in listing({})))
        ]
        print_table(("fault", "parameters", "what happens"), rows, is_wide=arguments.wide)
        sys.stderr.write("'soak faults show FAULT' documents one; 'soak faults --try' says which are possible here\n")
    else:
        _print_possible(faults, is_wide=arguments.wide)


def _print_possible(faults: list[FaultListing], *, is_wide: bool) -> None:
    rows = [(one.fault, _where(one), one.description) for one in faults]
    print_table(("fault", "possible on", "what happens"), rows, is_wide=is_wide)
    if reasons := [(one.fault, target, why) for one in faults for target, why in one.targets.items() if why]:
        print_table(("", ""), [])
        print_table(("fault", "not on", "because"), reasons, is_wide=is_wide)


# Imported where they are used: a list that asks nobody must not wait for what servers and HTTP need.


def _from_the_soak(configuration: Configuration) -> list[FaultListing] | None:
    from soak import join  # noqa: PLC0415

    info = join.find(configuration.settings.data_dir)
    if info is None:
        return None
    from soak.daemon.fault_routes import PATH  # noqa: PLC0415
    from soak.daemon.http_clients import ask  # noqa: PLC0415

    return decode_json(asyncio.run(ask(info, "GET", PATH)).body, type=list[FaultListing])


def _from_servers(configuration: Configuration) -> list[FaultListing]:
    sys.stderr.write("no soak runs in this data folder: starting servers for some seconds to see what is possible\n")
    with tempfile.TemporaryDirectory(prefix="soak-faults-") as folder:
        Path(folder).chmod(0o755)  # so that a PostgreSQL that runs as another user gets in
        return listing(asyncio.run(_try_out(Path(folder), configuration.settings.testbed.power_cut)))


async def _try_out(folder: Path, power_cut_by: PowerCutWay) -> Possible:
    """Ask each fault on servers that are started for it, with all that faults may need."""
    from soak.daemon.fault_controller import what_is_possible  # noqa: PLC0415
    from soak.daemon.plan import RunPlan  # noqa: PLC0415
    from soak.scenarios.terminal import ScenarioProgress  # noqa: PLC0415
    from soak.servers.kinds import LEDGER, POSTGRES, POSTGRES_REPLICA, REDIS  # noqa: PLC0415
    from soak.servers.local import LocalServers  # noqa: PLC0415

    tried = (REDIS.name, POSTGRES.name, POSTGRES_REPLICA.name)
    bed = LocalServers(folder, proxied=True, power_cuts=True, power_cut_by=power_cut_by)
    progress = ScenarioProgress(len(tried))
    try:
        for kind in tried:
            progress.begun(kind)
            await bed.start([kind])
            progress.ended(kind, "started")
        progress.clear()
        return what_is_possible(bed, RunPlan(specs=(), given={}, embedded=(LEDGER.name, *tried)))
    finally:
        await bed.stop()


def _where(one: FaultListing) -> str:
    return ", ".join(target for target, why in one.targets.items() if why is None) or "-"


def _print_presets(*, as_json: bool, is_wide: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode({preset.value: recipe for preset, recipe in RECIPES.items()}))
        return
    rows = [(preset.value, f"{recipe.every_seconds / 60:g}m", recipe.description) for preset, recipe in RECIPES.items()]
    print_table(("preset", "every", "what happens on each server"), rows, is_wide=is_wide)
