"""The same word again and again: each time it was said."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial
from soak.subjects.description import Subject

TURNS = 16


def _unfit(subject: Subject) -> str | None:
    if subject.id_in_content:
        return "the library keeps nothing but the text, so the id stands in it and no two texts are the same"
    return None


async def run(rig: Rig) -> Tried:
    talk = rig.talk("again", ["continue"])
    for turn in range(TURNS):
        await talk.say(rig.store(turn), 0)
    return seen_in([talk], notes=await rig.settle([talk]))


TRIAL = Trial(
    name="identical-turns",
    question=f"Is 'continue' there {TURNS} times when it was said {TURNS} times?",
    run=run,
    unfit=_unfit,
)
