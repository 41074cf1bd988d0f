"""All trials side by side, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.flaws import catalogue
from soak.flaws.flaw import PATIENCE_SECONDS, Flaw
from soak.scenarios.progress import Progress
from soak.scenarios.runner import Kind, running
from soak.selftest.pace import Pace
from soak.selftest.result import Trial, not_made
from soak.selftest.trial import make_trial
from soak.servers.kinds import POSTGRES_REPLICA

SIDE_BY_SIDE = 3
"""On two cores: one trial waits where another one works."""


class TrialPlan(msgspec.Struct, frozen=True):
    """Which flaw, and how closely the verifier looks."""

    name: str
    pace: Pace

    @property
    def flaw(self) -> Flaw:
        return catalogue.find(self.name)

    @property
    def seconds_max(self) -> float:
        return self.pace.trial_seconds_max


async def _make(plan: TrialPlan, folder: Path) -> Trial:
    return await make_trial(plan.flaw, folder, plan.pace)


KIND = Kind(
    name="selftest",
    module=__name__,
    plan=TrialPlan,
    result=Trial,
    make=_make,
    not_made=lambda plan, reason, _: not_made(plan.flaw, reason),
)


async def make_trials(
    flaws: Sequence[Flaw], progress: Progress, side_by_side: int = SIDE_BY_SIDE, pace: Pace = Pace.QUICK
) -> list[Trial]:
    """Make the trials of these flaws; the results come in their order."""
    async with running(KIND, progress, side_by_side) as begin:
        # Begun first, the long ones do not hold up the end.
        longest_first = sorted(flaws, key=_takes_long, reverse=True)
        tasks = {flaw.name: begin(TrialPlan(flaw.name, pace)) for flaw in longest_first}
    return [tasks[flaw.name].result() for flaw in flaws]


def _takes_long(flaw: Flaw) -> bool:
    """Whether it needs two rigs, a replica, or patience."""
    disturbance = flaw.wrong.disturbance
    is_slow = disturbance is not None and disturbance.target == POSTGRES_REPLICA.name
    return is_slow or flaw.patience_seconds > PATIENCE_SECONDS or not flaw.wrong.can_share_a_server_with(flaw.right)
