"""`soak analyse`: what real memory libraries lose, each tried in the same way."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.commands.flags import add_wide
from soak.errors import ExitCode, UsageError
from soak.report.text import print_json, print_table
from soak.scenarios.analyses import document, page, table, trials
from soak.scenarios.analyses.analysing import SIDE_BY_SIDE, AnalysisRequest, analyse
from soak.scenarios.analyses.scenario import TrialResult, exit_code_of, plan_stages, trials_for
from soak.scenarios.analyses.trials import Trial
from soak.scenarios.terminal import ScenarioProgress, completed, print_results
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
    wanted = _wanted(arguments)
    wanted_trials = trials.find(arguments.trial)
    begun = time.monotonic()
    progress = ScenarioProgress(_stages(wanted, wanted_trials))
    cells = completed(analyse(wanted, wanted_trials, progress, _say), progress, "servers and libraries")
    if cells is None:
        return ExitCode.INCONCLUSIVE
    _print(arguments, cells, time.monotonic() - begun)
    return exit_code_of(cells)


def _stages(wanted: AnalysisRequest, trials: Sequence[Trial]) -> int:
    own = [(subject, trials_for(subject, trials, known_only=wanted.known_only)) for subject in wanted.subjects]
    return sum(len(plan_stages(subject, fitting, wanted.seed)[0]) for subject, fitting in own)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _wanted(arguments: argparse.Namespace) -> AnalysisRequest:
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
        document.check(arguments.into)
    return AnalysisRequest(
        subjects=subjects,
        trials=[trial.name for trial in trials.find(arguments.trial)],
        seed=arguments.seed,
        environments=str(arguments.environments or environment.default_folder()),
        known_only=arguments.all_releases and not arguments.trial,
        side_by_side=arguments.jobs,
        logs=str(arguments.logs) if arguments.logs is not None else None,
    )


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
        document.write_into(arguments.into, cells, seconds, "soak " + shlex.join(sys.argv[1:]))
    lines = table.markdown_lines if arguments.markdown else table.report_lines
    print_results(arguments, table.as_json(cells, seconds), lines(cells, seconds))
