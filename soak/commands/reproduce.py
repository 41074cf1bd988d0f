"""`soak reproduce`: shows published results about failovers and durability again, on servers of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.errors import ExitCode, UsageError
from soak.report.text import table_lines
from soak.scenarios.reproductions.catalogue import ALL, SIDE_BY_SIDE
from soak.scenarios.reproductions.scenario import SEED_DEFAULT, SEED_MAX, Reproduced, ReproductionScenario
from soak.scenarios.runner import run_scenarios
from soak.scenarios.terminal import chosen, markdown_table, print_results

DESCRIPTION = (
    "Show published results again: what a failover, a power cut or a memory library takes of acknowledged writes.\n"
    "Each is a short soak with one fault, held to a contract that tolerates no loss, or a trial of 'soak analyse'."
)
EPILOG = f"""\
results: {", ".join(ALL)}

examples:
  soak reproduce                             all of them; takes a while: each is a soak of its own
  soak reproduce sentinel-failover sentinel-coordinated-failover
  soak reproduce --markdown published.md     the table of docs/published-results.md

exit codes: 0 all as published, 1 one differs, 2 no such result, 4 one could not be shown, or interrupted"""

HEADS = ("result", "expected", "published", "measured", "as published")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="results to show; all unless given")
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=SEED_DEFAULT,
        help=f"of the load and the fault ({SEED_DEFAULT} unless given)",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table as Markdown, too")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=SIDE_BY_SIDE, help=f"soaks side by side ({SIDE_BY_SIDE} unless given)"
    )


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: should be at least 1")
    if not 0 <= arguments.seed <= SEED_MAX:
        raise UsageError(f"--seed {arguments.seed}: should be from 0 to {SEED_MAX}")
    scenarios = [
        msgspec.structs.replace(ALL[name], seed=arguments.seed) for name in chosen("result", arguments.names, ALL)
    ]
    ran = run_scenarios(scenarios, "soaks", arguments.jobs)
    if ran is None:
        return ExitCode.INCONCLUSIVE
    if arguments.markdown is not None:
        arguments.markdown.write_text("\n".join([*markdown(scenarios, ran.results), ""]))
    print_results(arguments, as_json(scenarios, ran.results), report_lines(scenarios, ran.results, ran.seconds))
    return exit_code(scenarios, ran.results)


def exit_code(scenarios: Sequence[ReproductionScenario], results: Sequence[Reproduced]) -> ExitCode:
    """Return the code of all: a result that differs outweighs one that could not be shown."""
    shown = [(one, result) for one, result in zip(scenarios, results, strict=True) if not result.reason]
    if any(not result.agrees_with(one.expectation) for one, result in shown):
        return ExitCode.VIOLATION
    return ExitCode.PASS if len(shown) == len(results) else ExitCode.INCONCLUSIVE


def report_lines(scenarios: Sequence[ReproductionScenario], results: Sequence[Reproduced], seconds: float) -> list[str]:
    """Make the table, and the sum in the last line."""
    rows = [
        (
            one.name,
            "loses" if one.expectation.loses else "loses nothing",
            one.expectation.number,
            result.measured,
            _agreement(one, result),
        )
        for one, result in zip(scenarios, results, strict=True)
    ]
    same = sum(result.agrees_with(one.expectation) for one, result in zip(scenarios, results, strict=True))
    commands = [f"  {one.command}" for one in scenarios]
    summary = f"{same} of {len(results)} as published; {seconds:.0f} s"
    return [*table_lines(HEADS, rows), "", "To see one with its violations:", *commands, "", summary]


def markdown(scenarios: Sequence[ReproductionScenario], results: Sequence[Reproduced]) -> list[str]:
    """Make the table of the documentation."""
    rows = [
        (
            one.expectation.claim,
            one.expectation.source,
            one.expectation.number,
            result.measured,
            f"`{one.again}`",
        )
        for one, result in zip(scenarios, results, strict=True)
    ]
    return markdown_table(("published", "where", "number", "measured", "again with"), rows)


def as_json(scenarios: Sequence[ReproductionScenario], results: Sequence[Reproduced]) -> dict[str, object]:
    return {
        "results": [
            {
                **msgspec.to_builtins(one.expectation),
                **msgspec.to_builtins(result),
                "command": one.command,
                "as_published": result.agrees_with(one.expectation),
            }
            for one, result in zip(scenarios, results, strict=True)
        ]
    }


def _agreement(scenario: ReproductionScenario, result: Reproduced) -> str:
    if result.reason:
        return "?"
    return "yes" if result.agrees_with(scenario.expectation) else "NO"
