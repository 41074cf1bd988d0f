"""Somebody reads while others write: each read must begin with what the one before has shown."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.talk import Talk
from soak.analysis.trial import Trial
from soak.analysis.trials.concurrent_writers import speak
from soak.tasks import end_tasks

WRITERS = 4
TURNS = 40
READS_MIN = 5


async def run(rig: Rig) -> Tried:
    talk = rig.talk("prefix")
    reading = asyncio.create_task(_read_on(rig, talk))
    try:
        await asyncio.gather(*(speak(rig, talk, writer, TURNS) for writer in range(WRITERS)))
        meanwhile = talk.reads
    finally:
        await end_tasks([reading])
    notes = await rig.settle([talk])
    doubts = [f"only {meanwhile} reads were answered while it was written"] if meanwhile < READS_MIN else []
    return seen_in([talk], notes=[f"{meanwhile} reads while it was written", *notes], doubts=doubts)


async def _read_on(rig: Rig, talk: Talk) -> None:
    number = 0
    while True:
        await talk.read(rig.store(number))
        number += 1
        await asyncio.sleep(0)


TRIAL = Trial(
    name="growing-prefix",
    question=f"Does a reader see only a growing prefix while {WRITERS} writers append?",
    run=run,
    acknowledged_min=WRITERS * TURNS // 10,
)
