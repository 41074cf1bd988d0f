"""`soak recovery-matrix`: breaks servers in every configuration, and shows what each lost and what it promises."""

from __future__ import annotations

import argparse
from pathlib import Path

from soak.duration import parse_seconds
from soak.errors import ExitCode, UsageError
from soak.scenarios.recovery_matrix import table
from soak.scenarios.recovery_matrix.judgement import exit_code_of, worst_of
from soak.scenarios.recovery_matrix.scenario import (
    BEDS,
    CONFIGURATIONS,
    FAULTS,
    POSTGRESES,
    POWER_CUTS,
    REDISES,
    SIDE_BY_SIDE,
    RecoveryScenario,
    plan_cells,
)
from soak.scenarios.runner import run_scenarios
from soak.scenarios.scenario import ServerSetup
from soak.scenarios.terminal import print_results

DESCRIPTION = (
    "Write to a server of each configuration, break it, start it again, and count what it had acknowledged and lost.\n"
    "RPO is the age of the oldest lost message at the fault, RTO the time from the fault to the first write and read\n"
    "that succeed. What is promised is derived from the configuration the server says it runs with."
)
EPILOG = f"""\
configurations: {", ".join(CONFIGURATIONS)}
faults:         {", ".join(FAULTS)}

examples:
  soak recovery-matrix                                        all of them, in a few minutes
  soak recovery-matrix --config aof-everysec aof-always --fault power_cut --repeat 5
  soak recovery-matrix --config aof-no --contract redis-always would this server keep that promise?
  soak recovery-matrix --markdown --picture matrix.svg > matrix.md

exit codes: 0 every cell is inside its contract, 1 one lost more than is promised, 2 usage,
3 no server can be started, 4 a cell could not be made, or interrupted"""

LOAD_SECONDS_DEFAULT = "3s"
LOAD_SECONDS_MAX = 30.0
REPEATS_MAX = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", metavar="NAME", nargs="+", default=[], help="configurations to try; all unless given")
    add("--fault", metavar="NAME", nargs="+", default=[], help="faults to put them through; all unless given")
    add("--repeat", metavar="N", type=int, default=1, help="try each cell N times and show the worst")
    add("--seconds", metavar="TIME", default=LOAD_SECONDS_DEFAULT, help="load before the fault (default: 3s)")
    add("--contract", metavar="PRESET", help="hold all to this promise instead of what their servers give")
    add("--testbed", choices=BEDS, default=BEDS[0], help="where the servers run (default: local)")
    add("--redis", choices=REDISES, default=REDISES[0], help="which Redis (default: valkey)")
    add("--postgres", choices=POSTGRESES, default=POSTGRESES[0], help="which PostgreSQL (default: 18)")
    add("--redis-image", metavar="IMAGE", help="in Docker: another image than the official one")
    add("--postgres-image", metavar="IMAGE", help="likewise")
    add("--power-cut", choices=POWER_CUTS, default=POWER_CUTS[0], help="how the power is cut (default: auto)")
    add("--jobs", metavar="N", type=int, default=SIDE_BY_SIDE, help=f"cells side by side ({SIDE_BY_SIDE} unless given)")
    add("--picture", metavar="FILE", type=Path, help="write the matrix as an SVG picture, too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the results as JSON")
    form.add_argument("--markdown", action="store_true", help="print the table for a page")


def execute(arguments: argparse.Namespace) -> ExitCode:
    scenarios = _scenarios(arguments)
    ran = run_scenarios(scenarios, "servers", arguments.jobs, tries=arguments.repeat, worst_of=worst_of)
    if ran is None:
        return ExitCode.INCONCLUSIVE
    results, seconds = ran
    if arguments.picture is not None:
        arguments.picture.write_text(table.draw(results), encoding="utf-8")
    lines = table.markdown_lines if arguments.markdown else table.report_lines
    print_results(arguments, table.as_json(results, seconds), lines(results, seconds))
    return exit_code_of(results)


def _scenarios(arguments: argparse.Namespace) -> list[RecoveryScenario]:
    if arguments.picture is not None and not arguments.picture.parent.is_dir():
        raise UsageError(f"--picture {arguments.picture}: there is no such folder")
    for flag, value, most in (("--repeat", arguments.repeat, REPEATS_MAX), ("--jobs", arguments.jobs, REPEATS_MAX)):
        if not 1 <= value <= most:
            raise UsageError(f"{flag} {value}: should be from 1 to {most}")
    servers = ServerSetup(
        testbed=arguments.testbed,
        redis=arguments.redis,
        postgres=arguments.postgres,
        redis_image=arguments.redis_image,
        postgres_image=arguments.postgres_image,
        power_cut=arguments.power_cut,
    )
    load_seconds = _load_seconds(arguments.seconds)
    return plan_cells(arguments.config, arguments.fault, servers, load_seconds, arguments.contract)


def _load_seconds(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--seconds: {error}") from None
    if not 0 < seconds <= LOAD_SECONDS_MAX:
        raise UsageError(f"--seconds {text}: should be more than 0 and at most {LOAD_SECONDS_MAX:g}s")
    return seconds
