"""`soak analyse`: what real memory libraries lose, each tried in the same way."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.commands.flags import add_wide
from soak.errors import ExitCode, UsageError
from soak.report.text import print_json, print_table
from soak.scenarios.analyses import page, table, trials
from soak.scenarios.analyses.judgement import TrialResult, exit_code_of
from soak.scenarios.analyses.scenario import SIDE_BY_SIDE, AnalysisScenario, plan_stages, trials_for
from soak.scenarios.analyses.trials import Trial
from soak.scenarios.runner import run_scenarios
from soak.scenarios.terminal import print_results
from soak.subjects import catalogue, environment
from soak.subjects.description import PROCESSES_MAX, Subject

DESCRIPTION = (
    "Put real memory libraries through the same trials, on servers of their own, and show what each of them lost.\n"
    "Each library runs in an environment of its own, which is installed when it is first needed."
)
EPILOG = f"""\
trials: {", ".join(trials.ALL)}

examples:
  soak analyse --list                                          which libraries there are
  soak analyse                                                 the newest release of each, all trials
  soak analyse openai-agents-redis --trial concurrent-writers --seed 7
  soak analyse agno-redis agno-redis@2.6.4                     two releases of one
  soak analyse --all-releases --into docs/analyses.md          everything, into the page of measurements
  soak analyse ./my_subject.py --html analysis.html            a library of your own choice

exit codes: 0 the analysis was made, whatever it found; 2 usage; 4 a cell could not be made, or interrupted"""

SEED_DEFAULT = 7
SEED_MAX = 2**63 - 1
JOBS_MAX = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("subjects", metavar="SUBJECT", nargs="*", help="names (--list), or paths of scripts; all unless given")
    add("--list", action="store_true", help="list the subjects and trials, and end")
    add_wide(parser)
    add("--all-releases", action="store_true", help="earlier releases, too, with the trials they are known for")
    add("--trial", metavar="NAME", nargs="+", default=[], help="trials to make; all unless given")
    add("--seed", metavar="N", type=int, default=SEED_DEFAULT, help=f"what is said ({SEED_DEFAULT} unless given)")
    add("--processes", metavar="N", type=int, help="processes of each library (unless given, as its script says)")
    add("--jobs", metavar="N", type=int, default=SIDE_BY_SIDE, help=f"stages side by side (default: {SIDE_BY_SIDE})")
    add("--environments", metavar="DIR", type=Path, help="where environments are kept (default: in the user's cache)")
    add("--logs", metavar="DIR", type=Path, help="keep what the libraries logged in this folder")
    add("--html", metavar="FILE", type=Path, help="write the table as a page, too")
    add("--into", metavar="FILE", type=Path, help="write it into a Markdown file, between its marks of an analysis")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the results as JSON")
    form.add_argument("--markdown", action="store_true", help="print the table for a page in Markdown")


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.list:
        _list(as_json=arguments.json, is_wide=arguments.wide)
        return ExitCode.PASS
    subjects, wanted = _subjects(arguments), trials.find(arguments.trial)
    scenarios, cells = _plan(arguments, subjects, wanted)
    ran = run_scenarios(scenarios, "servers and libraries", arguments.jobs)
    if ran is None:
        return ExitCode.INCONCLUSIVE
    cells += [cell for result in ran.results for cell in result.cells]
    names, order = [subject.name for subject in subjects], [trial.name for trial in wanted]
    cells.sort(key=lambda cell: (names.index(cell.subject), order.index(cell.trial)))
    _print(arguments, cells, ran.seconds)
    return exit_code_of(cells)


def _plan(
    arguments: argparse.Namespace, subjects: Sequence[Subject], wanted: Sequence[Trial]
) -> tuple[list[AnalysisScenario], list[TrialResult]]:
    """Return what is to be run, and the cells of which it is known before that they cannot be."""
    environments = str(arguments.environments or environment.default_folder())
    logs = str(arguments.logs) if arguments.logs is not None else None
    scenarios: list[AnalysisScenario] = []
    cells: list[TrialResult] = []
    for subject in subjects:
        own = trials_for(subject, wanted, known_only=arguments.all_releases and not arguments.trial)
        stages, empty = plan_stages(subject, own, arguments.seed, environments, logs)
        scenarios += stages
        cells += empty
    return scenarios, cells


def _subjects(arguments: argparse.Namespace) -> list[Subject]:
    for flag, value, least, most in (
        ("--seed", arguments.seed, 0, SEED_MAX),
        ("--jobs", arguments.jobs, 1, JOBS_MAX),
        ("--processes", arguments.processes, 1, PROCESSES_MAX),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{flag} {value}: should be from {least} to {most}")
    subjects = catalogue.find(arguments.subjects, all_releases=arguments.all_releases)
    if arguments.processes is not None:
        subjects = [msgspec.structs.replace(subject, processes=arguments.processes) for subject in subjects]
    if arguments.html is not None and not arguments.html.parent.is_dir():
        raise UsageError(f"--html {arguments.html}: there is no such folder")
    if arguments.into is not None:
        table.check_marks(arguments.into)
    return subjects


def _list(*, as_json: bool, is_wide: bool) -> None:
    subjects = list(catalogue.all_subjects().values())
    if as_json:
        print_json(msgspec.json.encode(subjects))
        return
    heads = ("subject", "release", "server", "processes", "what it is")
    print_table(heads, [_row(subject) for subject in subjects], is_wide=is_wide)
    sys.stdout.write("\n")
    print_table(("trial", "question"), [(trial.name, trial.question) for trial in trials.ALL.values()], is_wide=is_wide)


def _row(subject: Subject) -> tuple[str, ...]:
    return (subject.name, subject.version, subject.server or "files", str(subject.processes), subject.title)


def _print(arguments: argparse.Namespace, cells: Sequence[TrialResult], seconds: float) -> None:
    if arguments.html is not None:
        arguments.html.write_text(page.document(cells, seconds), encoding="utf-8")
    if arguments.into is not None:
        table.write_into(arguments.into, cells, seconds, "soak " + shlex.join(sys.argv[1:]))
    lines = table.markdown_lines if arguments.markdown else table.report_lines
    print_results(arguments, table.as_json(cells, seconds), lines(cells, seconds))
