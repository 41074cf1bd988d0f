"""`soak faults`: what can be broken, what that does, and whether it is possible here."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from soak import join
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.daemon.fault_controller import what_is_possible
from soak.daemon.fault_routes import PATH, FaultListing, listing
from soak.daemon.http_clients import ask
from soak.daemon.plan import RunPlan
from soak.errors import ExitCode
from soak.faults.presets import RECIPES, Possible
from soak.json_input import decode_json
from soak.report.text import print_json, print_table
from soak.servers.kinds import LEDGER, POSTGRES, POSTGRES_REPLICA, REDIS
from soak.servers.local import LocalServers
from soak.servers.power_cut import PowerCutWay

DESCRIPTION = (
    "List every fault, what it does, and the servers it applies to. The soak running in the data folder says which\n"
    "are possible; without one, servers are started briefly to find out."
)
EPILOG = """\
examples:
  soak faults
  soak faults --presets                          schedules by name, for 'preset = "…"' in [faults]
  soak faults --json"""

TRIED = (REDIS.name, POSTGRES.name, POSTGRES_REPLICA.name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--presets", action="store_true", help="list the schedules that have a name instead")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments)
    if arguments.presets:
        _print_presets(as_json=arguments.json)
        return ExitCode.PASS
    info = join.find(configuration.settings.data_dir)
    if info is not None:
        answer = asyncio.run(ask(info, "GET", PATH))
        faults = decode_json(answer.body, type=list[FaultListing])
    else:
        sys.stderr.write("no soak runs in this data folder; servers are started for a moment to see what is possible\n")
        with tempfile.TemporaryDirectory(prefix="soak-faults-") as folder:
            Path(folder).chmod(0o755)  # so that a PostgreSQL that runs as another user gets in
            faults = listing(asyncio.run(_try_out(Path(folder), configuration.settings.testbed.power_cut)))
    if arguments.json:
        print_json(msgspec.json.encode(faults))
        return ExitCode.PASS
    print_table(("fault", "possible on", "what happens"), [(one.fault, _where(one), one.description) for one in faults])
    if reasons := [(one.fault, target, why) for one in faults for target, why in one.targets.items() if why]:
        print_table(("", ""), [])
        print_table(("fault", "not on", "because"), reasons)
    return ExitCode.PASS


async def _try_out(folder: Path, power_cut_by: PowerCutWay) -> Possible:
    """Ask each fault on servers that are started for it, with all that faults may need."""
    bed = LocalServers(folder, proxied=True, power_cuts=True, power_cut_by=power_cut_by)
    try:
        await bed.start(TRIED)
        return what_is_possible(bed, RunPlan(specs=(), given={}, embedded=(LEDGER.name, *TRIED)))
    finally:
        await bed.stop()


def _where(one: FaultListing) -> str:
    return ", ".join(target for target, why in one.targets.items() if why is None) or "-"


def _print_presets(*, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode({preset.value: recipe for preset, recipe in RECIPES.items()}))
        return
    rows = [(preset.value, f"{recipe.every_seconds / 60:g}m", recipe.description) for preset, recipe in RECIPES.items()]
    print_table(("preset", "every", "what happens on each server"), rows)
