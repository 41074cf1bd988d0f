"""Clocks that differ, and time that runs out."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import SKEW_SECONDS, TTL_EPSILON_SECONDS, TTL_SECONDS, Rig
from soak.analysis.stage import Stage
from soak.analysis.trial import Trial
from soak.subjects.description import Subject

SKEWED_TURNS = 20
LIVING_TURNS = 9
PAUSE_SECONDS = TTL_SECONDS / 4


async def _take_turns(rig: Rig) -> Tried:
    """Let two processes whose clocks differ take turns in one conversation."""
    talk = rig.talk("skewed")
    for turn in range(SKEWED_TURNS):
        # One is answered before the other one speaks: there is no doubt about the order.
        await talk.say(rig.store(turn % 2), turn % 2)
    return seen_in([talk], notes=await rig.settle([talk]))


def _has_one_clock(subject: Subject) -> str | None:
    return None if subject.processes > 1 else "it runs in one process, which has one clock"


async def _outlive(rig: Rig) -> Tried:
    """Go on with a conversation for longer than its time to live, and then leave it alone."""
    talk = rig.talk("living")
    for turn in range(LIVING_TURNS):
        await talk.say(rig.store(turn))
        await talk.read(rig.store(turn))
        await asyncio.sleep(PAUSE_SECONDS)
    notes = await rig.settle([talk])
    talk.close()
    await asyncio.sleep(TTL_SECONDS + 2 * TTL_EPSILON_SECONDS)
    await talk.read(rig.store(0))
    return seen_in([talk], notes=notes)


def _lives_for_ever(subject: Subject) -> str | None:
    return None if subject.has_ttl else "it gives sessions no time to live"


CLOCK_SKEW = Trial(
    name="clock-skew",
    question=f"Is the order right when the clock of one of two processes is {SKEW_SECONDS} s behind?",
    run=_take_turns,
    stage=Stage.SKEWED,
    unfit=_has_one_clock,
)
ACTIVE_TTL = Trial(
    name="active-ttl",
    question=f"Does a session with a time to live of {TTL_SECONDS} s live while it is used, and end when it is not?",
    run=_outlive,
    stage=Stage.EXPIRING,
    acknowledged_min=LIVING_TURNS // 2,
    unfit=_lives_for_ever,
)
