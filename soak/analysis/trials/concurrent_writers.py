"""Eight participants of one conversation speak at the same time, through several processes."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.talk import Talk
from soak.analysis.trial import Trial

WRITERS = 8
TURNS = 50


async def run(rig: Rig) -> Tried:
    talk = rig.talk("crowd")
    await asyncio.gather(*(speak(rig, talk, writer, TURNS) for writer in range(WRITERS)))
    notes = await rig.settle([talk])
    return seen_in([talk], notes=notes)


async def speak(rig: Rig, talk: Talk, process: int, turns: int, writer: int | None = None) -> None:
    """Say so much, one message after the other, through one process; the writer has its number unless told."""
    for _ in range(turns):
        await talk.say(rig.store(process), process if writer is None else writer)


TRIAL = Trial(
    name="concurrent-writers",
    question=f"Do {WRITERS} writers of one session, {TURNS} messages each, lose anything to each other?",
    run=run,
    acknowledged_min=WRITERS * TURNS // 10,
)
