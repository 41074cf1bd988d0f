"""A conversation with a time to live goes on for longer than that, and is then left alone."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import TTL_EPSILON_SECONDS, TTL_SECONDS, Rig
from soak.analysis.stage import Stage
from soak.analysis.trial import Trial
from soak.subjects.description import Subject

TURNS = 9
PAUSE_SECONDS = TTL_SECONDS / 4


def _unfit(subject: Subject) -> str | None:
    return None if subject.has_ttl else "it gives sessions no time to live"


async def run(rig: Rig) -> Tried:
    talk = rig.talk("living")
    for turn in range(TURNS):
        await talk.say(rig.store(turn))
        await talk.read(rig.store(turn))
        await asyncio.sleep(PAUSE_SECONDS)
    notes = await rig.settle([talk])
    talk.close()
    await asyncio.sleep(TTL_SECONDS + 2 * TTL_EPSILON_SECONDS)
    await talk.read(rig.store(0))
    return seen_in([talk], notes=notes)


TRIAL = Trial(
    name="active-ttl",
    question=f"Does a session with a time to live of {TTL_SECONDS} s live while it is used, and end when it is not?",
    run=run,
    stage=Stage.EXPIRING,
    acknowledged_min=TURNS // 2,
    unfit=_unfit,
)
