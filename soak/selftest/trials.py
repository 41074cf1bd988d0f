"""All trials side by side: each in a process of its own, a few at a time, and none left when we are gone."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.child_process import NoAnswerError, answer_of
from soak.flaws.flaw import PATIENCE_SECONDS, Flaw
from soak.json_input import decode_json
from soak.report.progress import Progress
from soak.selftest.pace import Pace
from soak.selftest.result import Trial, not_made

SIDE_BY_SIDE = 3
"""On two cores: one trial waits where another one works."""
_CHILD = "soak.selftest.child"


async def make_trials(
    flaws: Sequence[Flaw], progress: Progress, side_by_side: int = SIDE_BY_SIDE, pace: Pace = Pace.QUICK
) -> list[Trial]:
    """Make the trials of these flaws; the results come in their order."""
    folder = Path(tempfile.mkdtemp(prefix="soak-selftest-"))
    places = asyncio.Semaphore(side_by_side)

    async def make_one(flaw: Flaw) -> Trial:
        async with places:
            progress.begun(flaw.name)
            trial = await _in_process(flaw, folder / flaw.name, pace)
            progress.ended(flaw.name, trial.outcome)
            return trial

    # Begun first, the long ones do not hold up the end.
    longest_first = sorted(flaws, key=_takes_long, reverse=True)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {flaw.name: group.create_task(make_one(flaw)) for flaw in longest_first}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [tasks[flaw.name].result() for flaw in flaws]


def _takes_long(flaw: Flaw) -> bool:
    """Whether it needs two rigs, a replica, or patience."""
    disturbance = flaw.wrong.disturbance
    is_slow = disturbance is not None and disturbance.target == "postgres-replica"
    return is_slow or flaw.patience_seconds > PATIENCE_SECONDS or not flaw.wrong.can_share_a_server_with(flaw.right)


async def _in_process(flaw: Flaw, folder: Path, pace: Pace) -> Trial:
    try:
        said = await answer_of(_CHILD, flaw.name, str(folder), pace.value, seconds_max=pace.trial_seconds_max)
        return decode_json(said, type=Trial)
    except (NoAnswerError, msgspec.MsgspecError) as error:
        return not_made(flaw, " ".join(str(error).split()))
