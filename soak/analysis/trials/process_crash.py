"""All processes of the library are killed while they serve: an acknowledgement must not be ahead of the store."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial
from soak.analysis.trials.breaking import ACKNOWLEDGED_MIN, written_and_broken
from soak.checker.faults import Excuse


async def run(rig: Rig) -> Tried:
    talks = await written_and_broken(rig, "killed", Excuse.NOTHING, rig.deployment.kill)
    await rig.deployment.restart()
    notes = await rig.settle(talks)
    return seen_in(talks, notes=notes)


TRIAL = Trial(
    name="process-crash",
    question="Is everything there that was acknowledged before all processes of the library were killed?",
    run=run,
    acknowledged_min=ACKNOWLEDGED_MIN,
)
