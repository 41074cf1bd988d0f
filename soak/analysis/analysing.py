"""All libraries and stages side by side, each in a process of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from soak.analysis.making import make_cells
from soak.analysis.plan import StagePlan, plan_stages, trials_for
from soak.analysis.result import Cell, StageResult
from soak.analysis.trials import Trial
from soak.errors import SoakError
from soak.scenarios.progress import Progress
from soak.scenarios.runner import Kind, running
from soak.subjects.description import Subject
from soak.subjects.environment import interpreter_for

SIDE_BY_SIDE = 2
"""More of them on two cores would measure each other."""

KIND = Kind(
    name="analysis",
    module=__name__,
    plan=StagePlan,
    result=StageResult,
    make=make_cells,
    not_made=lambda plan, reason, _: StageResult(cells=[plan.inconclusive(trial, reason) for trial in plan.trials]),
)


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
    cells: list[Cell] = []
    stages: list[asyncio.Task[StageResult]] = []

    def keep_logs(plan: StagePlan, folder: Path) -> None:
        if wanted.logs is not None:
            _keep_logs(folder, Path(wanted.logs), f"{plan.subject.name}-{plan.stage.value}")

    async with running(KIND, progress, wanted.side_by_side, before_removal=keep_logs) as begin:
        for subject in wanted.subjects:
            own = trials_for(subject, trials, known_only=wanted.known_only)
            plans, empty = plan_stages(subject, own, wanted.seed)
            cells += empty
            if not plans:
                continue
            try:
                # One after the other: pip is at its best alone.
                interpreter = await asyncio.to_thread(interpreter_for, subject, Path(wanted.environments), say)
            except SoakError as error:
                cells += [plan.inconclusive(trial, str(error)) for plan in plans for trial in plan.trials]
                continue
            stages += [begin(msgspec.structs.replace(plan, interpreter=str(interpreter))) for plan in plans]
    cells += [cell for stage in stages for cell in stage.result().cells]
    subjects = [subject.name for subject in wanted.subjects]
    return sorted(cells, key=lambda cell: (subjects.index(cell.subject), wanted.trials.index(cell.trial)))


def _keep_logs(folder: Path, target: Path, name: str) -> None:
    for log in sorted(folder.glob("subject-*.log")):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target / f"{name}-{log.name}")
