"""The trials of one library on one stage, and how they are made."""

from __future__ import annotations

import asyncio
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from soak.errors import SoakError
from soak.masking import mask
from soak.scenarios.analyses import trials
from soak.scenarios.analyses.judgement import (
    AnalysisResult,
    TrialResult,
    TrialVerdict,
    empty_cell,
    judged,
    sum_up,
)
from soak.scenarios.analyses.rig import CannotBeTriedError, LibraryRig, Stage, staged
from soak.scenarios.analyses.trials import Trial
from soak.scenarios.scenario import Scenario, ServerSetup
from soak.subjects.description import Subject
from soak.subjects.environment import interpreter_for

SIDE_BY_SIDE = 2
"""More of them on two cores would measure each other."""
STAGE_SECONDS_MAX = 400.0
"""To set a stage and to clear it, besides its trials."""


class AnalysisScenario(Scenario[list[str], Subject, AnalysisResult], frozen=True, kw_only=True):
    """One library on one stage. Its load are trials by name, which bring their faults; it expects what is promised."""

    result = AnalysisResult

    stage: Stage
    seed: int
    environments: str
    """The folder of environments."""
    logs: str | None = None
    """Where the logs of the library are kept; None: nowhere."""
    interpreter: str = ""

    def prepare(self, say: Callable[[str], None]) -> AnalysisScenario:
        """Install the library; alone, for pip is at its best alone."""
        return msgspec.structs.replace(self, interpreter=_interpreter(self.expectation, self.environments, say))

    async def run(self, folder: Path) -> AnalysisResult:
        return AnalysisResult(cells=await _make_cells(self, folder))

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> AnalysisResult:  # noqa: ARG002
        return AnalysisResult(cells=[self.inconclusive(trial, reason) for trial in self.load])

    def keep(self, folder: Path) -> None:
        if self.logs is None:
            return
        for log in sorted(folder.glob("subject-*.log")):
            Path(self.logs).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, Path(self.logs) / f"{self.expectation.name}-{self.stage.value}-{log.name}")

    def inconclusive(self, trial: str, reason: str) -> TrialResult:
        """Return the cell of a trial that could not be made."""
        return empty_cell(self.expectation, trial, self.seed, TrialVerdict.INCONCLUSIVE, reason)


_NOT_INSTALLED: dict[str, SoakError] = {}
"""By library: what failed for one stage is not tried again for the next."""


def _interpreter(subject: Subject, environments: str, say: Callable[[str], None]) -> str:
    if subject.name in _NOT_INSTALLED:
        raise _NOT_INSTALLED[subject.name]
    try:
        return str(interpreter_for(subject, Path(environments), lambda line: say(f"{subject.name}: {line}")))
    except SoakError as error:
        _NOT_INSTALLED[subject.name] = error
        raise


def trials_for(subject: Subject, trials: Sequence[Trial], *, known_only: bool) -> list[Trial]:
    """Return what a library is put through: of an earlier release, if wanted, only what something is known of."""
    if not known_only or subject.is_newest:
        return list(trials)
    return [trial for trial in trials if trial.name in subject.known]


def plan_stages(
    subject: Subject, wanted: Sequence[Trial], seed: int, environments: str = "", logs: str | None = None
) -> tuple[list[AnalysisScenario], list[TrialResult]]:
    """Return the stages of a library, and the cells that it does not have, each with the reason."""
    cells: list[TrialResult] = []
    by_stage: dict[Stage, list[Trial]] = {}
    for trial in wanted:
        reason = subject.not_applicable.get(trial.name) or trial.unfit(subject)
        if reason is not None:
            cells.append(empty_cell(subject, trial.name, seed, TrialVerdict.NOT_APPLICABLE, reason))
        else:
            by_stage.setdefault(trial.stage, []).append(trial)
    scenarios = [
        AnalysisScenario(
            name=f"{subject.name}, {stage.value} ({own[0].name if len(own) == 1 else f'{len(own)} trials'})",
            stores=(subject.name,),
            servers=ServerSetup(redis_options=stage.redis_options),
            load=[trial.name for trial in own],
            expectation=subject,
            seconds_max=STAGE_SECONDS_MAX + sum(trial.seconds_max for trial in own),
            stage=stage,
            seed=seed,
            environments=environments,
            logs=logs,
        )
        for stage, own in by_stage.items()
    ]
    return scenarios, cells


async def _make_cells(plan: AnalysisScenario, folder: Path) -> list[TrialResult]:
    """Make the cells of a stage; what cannot be made says why."""
    cells: list[TrialResult] = []
    try:
        async with staged(plan.expectation, plan.stage, plan.servers, Path(plan.interpreter), folder, plan.seed) as rig:
            for name in plan.load:
                before = len(rig.deaths)
                cell = await _make(rig, plan, trials.ALL[name])
                if len(rig.deaths) > before:
                    # What is missing now may be the server's doing: nothing follows from it for the library.
                    death = f"the server died by itself, not by the trial ({rig.deaths[before].detail})"
                    cell = plan.inconclusive(name, death)
                cells.append(cell)
                if name != plan.load[-1]:
                    await rig.tidy()
    except (SoakError, CannotBeTriedError, TimeoutError) as error:
        reason = mask(" ".join(str(error).split())) or type(error).__name__
        made = {cell.trial for cell in cells}
        cells += [plan.inconclusive(name, reason) for name in plan.load if name not in made]
    return cells


async def _make(rig: LibraryRig, plan: AnalysisScenario, trial: Trial) -> TrialResult:
    begun = time.monotonic()
    subject = plan.expectation
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
