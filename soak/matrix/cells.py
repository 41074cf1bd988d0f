"""All cells side by side, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from soak.matrix import configurations
from soak.matrix.measuring import measure
from soak.matrix.plan import CellPlan
from soak.matrix.result import CellResult, not_made, worst_of
from soak.scenarios.progress import Progress
from soak.scenarios.runner import Kind, running

SIDE_BY_SIDE = 3
"""On two cores: one cell waits where another one works."""

KIND = Kind(
    name="matrix",
    module=__name__,
    plan=CellPlan,
    result=CellResult,
    make=measure,
    not_made=lambda plan, reason, is_unreachable: not_made(plan, reason, is_unreachable=is_unreachable),
)


async def make_cells(
    plans: Sequence[CellPlan], progress: Progress, *, repeats: int, side_by_side: int = SIDE_BY_SIDE
) -> list[CellResult]:
    """Make these cells, each so many times; the worst of each comes in the order of the plans."""
    async with running(KIND, progress, side_by_side, tries=repeats, worst_of=worst_of) as begin:
        # Begun first, the long ones do not hold up the end.
        longest_first = sorted(plans, key=_load_seconds_min, reverse=True)
        tasks = {plan.name: begin(plan) for plan in longest_first}
    return [tasks[plan.name].result() for plan in plans]


def _load_seconds_min(plan: CellPlan) -> float:
    return configurations.ALL[plan.configuration].load_seconds_min
