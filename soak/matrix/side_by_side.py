"""All cells side by side: each in a process of its own, a few at a time, and none left when we are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.child_process import NoAnswerError, answer_of
from soak.json_input import decode_json
from soak.matrix import configurations
from soak.matrix.plan import CellPlan
from soak.matrix.result import CellResult, not_made, worst_of
from soak.report.progress import Progress
from soak.testbed.temporary import TemporaryFolder

SIDE_BY_SIDE = 3
"""On two cores: one cell waits where another one works."""
CELL_SECONDS_MAX = 150.0
"""For one try at a cell, besides its load."""
FOLDER_PREFIX = "soak-matrix-"
_CHILD = "soak.matrix.child"


async def make_cells(
    plans: Sequence[CellPlan], progress: Progress, *, repeats: int, side_by_side: int = SIDE_BY_SIDE
) -> list[CellResult]:
    """Make these cells, each so many times; the worst of each comes in the order of the plans."""
    places = asyncio.Semaphore(side_by_side)
    folder = TemporaryFolder(FOLDER_PREFIX)

    async def make_one(number: int, plan: CellPlan) -> CellResult:
        async with places:
            progress.begun(plan.name)
            tries = [await _in_process(plan, folder.path / f"{number}-{repeat}") for repeat in range(repeats)]
            result = worst_of(tries)
            progress.ended(plan.name, result.outcome)
            return result

    numbered = list(enumerate(plans))
    # Begun first, the long ones do not hold up the end.
    numbered.sort(key=lambda one: configurations.ALL[one[1].configuration].load_seconds_min, reverse=True)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {number: group.create_task(make_one(number, plan)) for number, plan in numbered}
    finally:
        folder.remove()
    return [tasks[number].result() for number in range(len(plans))]


async def _in_process(plan: CellPlan, folder: Path) -> CellResult:
    words = (msgspec.json.encode(plan).decode(), str(folder))
    try:
        said = await answer_of(_CHILD, *words, seconds_max=plan.load_seconds + CELL_SECONDS_MAX)
        return decode_json(said, type=CellResult)
    except (NoAnswerError, msgspec.MsgspecError) as error:
        return not_made(plan, " ".join(str(error).split()))
