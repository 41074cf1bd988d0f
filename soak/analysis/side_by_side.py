"""All libraries and stages, a few at a time, each in a process of its own, and none left when we are gone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from soak.analysis import programme
from soak.analysis.plan import StagePlan, empty_cell, plan_stages, trials_for
from soak.analysis.result import Cell, Verdict
from soak.analysis.trial import Trial
from soak.child_process import NoAnswerError, answer_of
from soak.errors import SoakError
from soak.report.progress import Progress
from soak.subjects.description import Subject
from soak.subjects.environment import interpreter_for
from soak.testbed.temporary import TemporaryFolder

SIDE_BY_SIDE = 2
"""More of them on two cores would measure each other."""
STAGE_SECONDS_MAX = 400.0
"""To set a stage and to clear it, besides its trials."""
FOLDER_PREFIX = "soak-analysis-"
_CHILD = "soak.analysis.child"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be analysed."""

    subjects: list[Subject]
    trials: list[str]
    seed: int
    environments: str
    known_only: bool = False
    """Earlier releases are put through those trials only of which something is known of them."""
    side_by_side: int = SIDE_BY_SIDE
    logs: str | None = None
    """Where the logs of the libraries are kept; None: nowhere."""


async def analyse(
    wanted: Wanted, trials: Sequence[Trial], progress: Progress, say: Callable[[str], None]
) -> list[Cell]:
    """Make every cell, in the order of subjects and trials."""
    places = asyncio.Semaphore(wanted.side_by_side)
    folder = TemporaryFolder(FOLDER_PREFIX)
    cells: list[Cell] = []
    try:
        async with asyncio.TaskGroup() as group:
            for subject in wanted.subjects:
                own = trials_for(subject, trials, known_only=wanted.known_only)
                plans, empty = plan_stages(subject, own, wanted.seed)
                cells += empty
                if not plans:
                    continue
                try:
                    # One after the other: pip is at its best alone.
                    home = Path(wanted.environments)
                    interpreter = await asyncio.to_thread(interpreter_for, subject, home, say)
                except SoakError as error:
                    cells += [_inconclusive(plan, name, str(error)) for plan in plans for name in plan.trials]
                    continue
                for plan in plans:
                    ready = msgspec.structs.replace(plan, interpreter=str(interpreter))
                    group.create_task(_one(ready, folder.path, places, progress, cells, wanted.logs))
    finally:
        folder.remove()
    subjects = [subject.name for subject in wanted.subjects]
    return sorted(cells, key=lambda cell: (subjects.index(cell.subject), wanted.trials.index(cell.trial)))


async def _one(
    plan: StagePlan, root: Path, places: asyncio.Semaphore, progress: Progress, cells: list[Cell], logs: str | None
) -> None:
    name = f"{plan.subject.name}-{plan.stage.value}"
    folder = root / name
    async with places:
        progress.begun(plan.name)
        words = (msgspec.json.encode(plan).decode(), str(folder))
        seconds_max = STAGE_SECONDS_MAX + sum(programme.ALL[trial].seconds_max for trial in plan.trials)
        try:
            said = await answer_of(_CHILD, *words, seconds_max=seconds_max)
            made = msgspec.json.decode(said, type=list[Cell])
        except (NoAnswerError, msgspec.MsgspecError) as error:
            made = [_inconclusive(plan, trial, " ".join(str(error).split())) for trial in plan.trials]
        finally:
            _keep_logs(folder, logs, name)
            shutil.rmtree(folder, ignore_errors=True)
        cells += made
        progress.ended(plan.name, "; ".join(f"{cell.trial} {cell.words}" for cell in made))


def _keep_logs(folder: Path, logs: str | None, name: str) -> None:
    if logs is None:
        return
    for log in sorted(folder.glob("subject-*.log")):
        target = Path(logs)
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target / f"{name}-{log.name}")


def _inconclusive(plan: StagePlan, trial: str, reason: str) -> Cell:
    return empty_cell(plan.subject, trial, plan.seed, Verdict.INCONCLUSIVE, reason)
