"""Several participants of one conversation speak at the same time, through several processes."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.talk import Talk
from soak.analysis.trial import Trial
from soak.tasks import end_tasks

CROWD = 8
CROWD_TURNS = 50
WRITERS = 4
TURNS = 40
ROUNDS_MAX = 5
"""A read has to come between two commits to see anything: what one round does not show, another may."""
READS_MIN = 5


async def _write_at_once(rig: Rig) -> Tried:
    talk = rig.talk("crowd")
    await asyncio.gather(*(speak(rig, talk, writer, CROWD_TURNS) for writer in range(CROWD)))
    return seen_in([talk], notes=await rig.settle([talk]))


async def speak(rig: Rig, talk: Talk, process: int, turns: int, writer: int | None = None) -> None:
    """Say so much, one message after the other, through one process; the writer has its number unless told."""
    for _ in range(turns):
        await talk.say(rig.store(process), process if writer is None else writer)


async def _watch_it_grow(rig: Rig) -> Tried:
    """Read while others write: each read must begin with what the one before has shown."""
    talks: list[Talk] = []
    notes: list[str] = []
    meanwhile = 0
    while len(talks) < ROUNDS_MAX and not any(talk.found for talk in talks):
        talk = rig.talk(f"prefix{len(talks)}")
        talks.append(talk)
        meanwhile += await _read_while_written(rig, talk)
        notes += await rig.settle([talk])
    told = f"{meanwhile} reads while {'it was' if len(talks) == 1 else f'{len(talks)} sessions were'} written"
    doubts = [f"only {told}"] if meanwhile < READS_MIN else []
    return seen_in(talks, notes=[told, *notes], doubts=doubts)


async def _read_while_written(rig: Rig, talk: Talk) -> int:
    reading = asyncio.create_task(_read_on(rig, talk))
    try:
        await asyncio.gather(*(speak(rig, talk, writer, TURNS) for writer in range(WRITERS)))
        return talk.reads
    finally:
        await end_tasks([reading])


async def _read_on(rig: Rig, talk: Talk) -> None:
    number = 0
    while True:
        await talk.read(rig.store(number))
        number += 1
        await asyncio.sleep(0)


CONCURRENT_WRITERS = Trial(
    name="concurrent-writers",
    question=f"Do {CROWD} writers of one session, {CROWD_TURNS} messages each, lose anything to each other?",
    run=_write_at_once,
    acknowledged_min=CROWD * CROWD_TURNS // 10,
)
GROWING_PREFIX = Trial(
    name="growing-prefix",
    question=f"Does a reader see only a growing prefix while {WRITERS} writers append?",
    run=_watch_it_grow,
    acknowledged_min=WRITERS * TURNS // 10,
)
