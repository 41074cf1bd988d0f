"""Texts that stores are known to spoil. To refuse one openly is no loss; to change it is."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial
from soak.checker.hard_text import HARD_TEXTS
from soak.checker.outcome import Outcome


async def run(rig: Rig) -> Tried:
    talks = []
    refused = []
    for number, (kind, texts) in enumerate(HARD_TEXTS.items()):
        talk = rig.talk(f"hard{number}", texts)
        talks.append(talk)
        for _ in texts:
            await talk.say(rig.store(number))
        if talk.outcomes[Outcome.OK] < len(texts):
            refused.append(kind)
    notes = [f"not taken: {', '.join(refused)}"] if refused else []
    return seen_in(talks, notes=[*notes, *await rig.settle(talks)])


TRIAL = Trial(
    name="hard-text",
    question="Does every text come back as it was said: scripts, emoji, NUL, quotes, 32 KiB?",
    run=run,
)
