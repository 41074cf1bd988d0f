"""Sessions whose names differ in one way only, and one of them is forgotten."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.talk import Talk
from soak.analysis.trial import Trial
from soak.checker.hard_text import LOOKALIKES

TURNS = 2


async def run(rig: Rig) -> Tried:
    by_kind: dict[str, list[Talk]] = {}
    for kind, names in LOOKALIKES.items():
        talks = by_kind[kind] = [rig.talk(f"{kind.replace(' ', '-')}={name}") for name in names]
        for turn in range(TURNS):
            for number, talk in enumerate(talks):
                await talk.say(rig.store(number + turn))
    everything = [talk for talks in by_kind.values() for talk in talks]
    notes = await rig.settle(everything)
    for talks in by_kind.values():
        await talks[0].forget(rig.store(0))
    notes += await rig.settle(everything)
    mixed_up = [kind for kind, talks in by_kind.items() if any(talk.found for talk in talks)]
    told = [f"names that differ only in: {', '.join(mixed_up)}"] if mixed_up else []
    return seen_in(everything, notes=[*told, *notes])


TRIAL = Trial(
    name="colliding-sessions",
    question="Are sessions apart whose names differ only in case, a comma, a slash …, also when one is forgotten?",
    run=run,
)
