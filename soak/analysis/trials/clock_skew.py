"""Two processes whose clocks differ take turns in one conversation."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import SKEW_SECONDS, Rig
from soak.analysis.stage import Stage
from soak.analysis.trial import Trial
from soak.subjects.description import Subject

TURNS = 20


def _unfit(subject: Subject) -> str | None:
    return None if subject.processes > 1 else "it runs in one process, which has one clock"


async def run(rig: Rig) -> Tried:
    talk = rig.talk("skewed")
    for turn in range(TURNS):
        # One is answered before the other one speaks: there is no doubt about the order.
        await talk.say(rig.store(turn % 2), turn % 2)
    return seen_in([talk], notes=await rig.settle([talk]))


TRIAL = Trial(
    name="clock-skew",
    question=f"Is the order right when the clock of one of two processes is {SKEW_SECONDS} s behind?",
    run=run,
    stage=Stage.SKEWED,
    unfit=_unfit,
)
