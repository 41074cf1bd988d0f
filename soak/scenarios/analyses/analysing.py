"""All libraries and stages side by side, each in a process of its own."""

from __future__ import annotations

import asyncio
import functools
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from soak.errors import SoakError
from soak.masking import mask
from soak.scenarios.analyses import trials
from soak.scenarios.analyses.rig import CannotBeTriedError, LibraryRig, staged
from soak.scenarios.analyses.scenario import (
    AnalysisResult,
    AnalysisScenario,
    TrialResult,
    empty_cell,
    judged,
    plan_stages,
    sum_up,
    trials_for,
)
from soak.scenarios.analyses.trials import Trial
from soak.scenarios.runner import ScenarioKind, running
from soak.scenarios.terminal import ScenarioProgress
from soak.subjects.description import Subject
from soak.subjects.environment import interpreter_for


async def make_cells(plan: AnalysisScenario, folder: Path) -> AnalysisResult:
    """Make the cells of a plan; what cannot be made says why."""
    cells: list[TrialResult] = []
    try:
        async with staged(plan.subject, plan.stage, Path(plan.interpreter), folder, plan.seed) as rig:
            for name in plan.trials:
                before = len(rig.deaths)
                cell = await _make(rig, plan, trials.ALL[name])
                if len(rig.deaths) > before:
                    # What is missing now may be the server's doing: nothing follows from it for the library.
                    death = f"the server died by itself, not by the trial ({rig.deaths[before].detail})"
                    cell = plan.inconclusive(name, death)
                cells.append(cell)
                if name != plan.trials[-1]:
                    await rig.tidy()
    except (SoakError, CannotBeTriedError, TimeoutError) as error:
        reason = mask(" ".join(str(error).split())) or type(error).__name__
        made = {cell.trial for cell in cells}
        cells += [plan.inconclusive(name, reason) for name in plan.trials if name not in made]
    return AnalysisResult(cells=cells)


async def _make(rig: LibraryRig, plan: AnalysisScenario, trial: Trial) -> TrialResult:
    begun = time.monotonic()
    subject = plan.subject
    try:
        async with asyncio.timeout(trial.seconds_max):
            tried = sum_up(await trial.run(rig))
    except TimeoutError:
        return plan.inconclusive(trial.name, f"it was not over after {trial.seconds_max:.0f} s")
    except (CannotBeTriedError, SoakError) as error:
        return plan.inconclusive(trial.name, mask(" ".join(str(error).split())))
    except Exception as error:  # noqa: BLE001  whatever it was, this cell is lost, and the others go on
        traceback.print_exc()
        return plan.inconclusive(trial.name, mask(f"internal error ({type(error).__name__}: {error})"))
    verdict, reason = judged(
        tried, subject.by_design.get(trial.name), trial.acknowledged_min, subject.known.get(trial.name, ())
    )
    made = empty_cell(subject, trial.name, plan.seed, verdict, mask(reason))
    notes = [mask(note) for note in tried.notes]
    counts = {**tried.counts(), "notes": notes, "seconds": time.monotonic() - begun}
    return msgspec.structs.replace(made, **counts)


SIDE_BY_SIDE = 2
"""More of them on two cores would measure each other."""

KIND = ScenarioKind(
    name="analysis",
    module=__name__,
    plan=AnalysisScenario,
    result=AnalysisResult,
    make=make_cells,
    not_made=lambda plan, reason, _: AnalysisResult(cells=[plan.inconclusive(trial, reason) for trial in plan.trials]),
)


class AnalysisRequest(msgspec.Struct, frozen=True, kw_only=True):
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
    wanted: AnalysisRequest, trials: Sequence[Trial], progress: ScenarioProgress, say: Callable[[str], None]
) -> list[TrialResult]:
    """Make every cell, in the order of subjects and trials."""
    cells: list[TrialResult] = []
    stages: list[asyncio.Task[AnalysisResult]] = []

    def keep_logs(plan: AnalysisScenario, folder: Path) -> None:
        if wanted.logs is not None:
            _keep_logs(folder, Path(wanted.logs), f"{plan.subject.name}-{plan.stage.value}")

    async with running(KIND, progress, wanted.side_by_side, before_removal=keep_logs) as begin:
        for number, subject in enumerate(wanted.subjects, 1):
            own = trials_for(subject, trials, known_only=wanted.known_only)
            plans, empty = plan_stages(subject, own, wanted.seed)
            cells += empty
            if not plans:
                continue
            try:
                # One after the other: pip is at its best alone.
                place = f"{subject.name}, {number} of {len(wanted.subjects)}: "
                say_of = functools.partial(_say_of, progress, say, place)
                interpreter = await asyncio.to_thread(interpreter_for, subject, Path(wanted.environments), say_of)
            except SoakError as error:
                cells += [plan.inconclusive(trial, str(error)) for plan in plans for trial in plan.trials]
                continue
            stages += [begin(msgspec.structs.replace(plan, interpreter=str(interpreter))) for plan in plans]
    cells += [cell for stage in stages for cell in stage.result().cells]
    subjects = [subject.name for subject in wanted.subjects]
    return sorted(cells, key=lambda cell: (subjects.index(cell.subject), wanted.trials.index(cell.trial)))


def _say_of(progress: ScenarioProgress, say: Callable[[str], None], place: str, line: str) -> None:
    progress.clear()  # or the line would stand behind the one of what is under way
    say(place + line)


def _keep_logs(folder: Path, target: Path, name: str) -> None:
    for log in sorted(folder.glob("subject-*.log")):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target / f"{name}-{log.name}")
