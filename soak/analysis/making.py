"""Makes the cells of one library on one stage, one after the other."""

from __future__ import annotations

import asyncio
import time
import traceback
from pathlib import Path

from soak.analysis import trials
from soak.analysis.plan import StagePlan
from soak.analysis.result import Cell, StageResult, judged, sum_up
from soak.analysis.rig import CannotBeTriedError, Rig, staged
from soak.analysis.trials import Trial
from soak.errors import SoakError
from soak.masking import mask


async def make_cells(plan: StagePlan, folder: Path) -> StageResult:
    """Make the cells of a plan; what cannot be made says why."""
    cells: list[Cell] = []
    try:
        async with staged(plan.subject, plan.stage, Path(plan.interpreter), folder, plan.seed) as rig:
            for name in plan.trials:
                before = len(rig.deaths)
                cell = await _make(rig, plan, trials.ALL[name])
                if len(rig.deaths) > before:
                    # What is missing now may be the server's doing: nothing follows from it for the library.
                    told = f"the server died by itself, not by the trial ({rig.deaths[before].detail})"
                    cell = plan.inconclusive(name, told)
                cells.append(cell)
                if name != plan.trials[-1]:
                    await rig.tidy()
    except (SoakError, CannotBeTriedError, TimeoutError) as error:
        reason = mask(" ".join(str(error).split())) or type(error).__name__
        made = {cell.trial for cell in cells}
        cells += [plan.inconclusive(name, reason) for name in plan.trials if name not in made]
    return StageResult(cells=cells)


async def _make(rig: Rig, plan: StagePlan, trial: Trial) -> Cell:
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
    return Cell(
        subject=subject.name,
        called=subject.called or subject.name,
        library=subject.library,
        version=subject.version,
        trial=trial.name,
        seed=plan.seed,
        verdict=verdict,
        found=tried.found,
        tolerated=tried.tolerated,
        acknowledged=tried.acknowledged,
        failed=tried.failed,
        unknown=tried.unknown,
        verified=tried.verified,
        reads=tried.reads,
        reads_without_answer=tried.reads_without_answer,
        reason=mask(reason),
        notes=[mask(note) for note in tried.notes],
        example=tried.example,
        seconds=time.monotonic() - begun,
    )
