"""A conversation is forgotten through one process and read through another; then it begins anew."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial
from soak.checker.outcome import Outcome

TURNS = 10
TURNS_ANEW = 3


async def run(rig: Rig) -> Tried:
    talk, neighbour = rig.talk("forgotten"), rig.talk("remembered")
    for turn in range(TURNS):
        await talk.say(rig.store(turn))
        await neighbour.say(rig.store(turn))
    await talk.read(rig.store(1))
    outcome = await talk.forget(rig.store(0))
    await talk.read(rig.store(1))
    for turn in range(TURNS_ANEW):
        await talk.say(rig.store(turn))
    notes = await rig.settle([talk, neighbour])
    doubts = ["the forget was not acknowledged"] if outcome is not Outcome.OK else []
    return seen_in([talk, neighbour], notes=notes, doubts=doubts)


TRIAL = Trial(
    name="forgetting",
    question="Is a forgotten session gone for every process, its neighbour whole, and can it begin anew?",
    run=run,
)
