"""Replies get lost after the server has done the work; the library's own client decides what to do."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial, without_server
from soak.analysis.trials.concurrent_writers import speak

SESSIONS = 4
TURNS = 25
ONE_IN = 7
"""Acknowledgements of writes per one that is lost; odd, so that it meets every step of a library that makes two."""
DROPPED_MIN = 3


async def run(rig: Rig) -> Tried:
    talks = [rig.talk(f"dropped{number}") for number in range(SESSIONS)]
    before = rig.proxy.replies_dropped
    rig.proxy.drop_replies(ONE_IN)
    try:
        # A session each: what stands twice or is out of order then, no other writer has put there.
        await asyncio.gather(*(speak(rig, talk, number, TURNS, 0) for number, talk in enumerate(talks)))
    finally:
        rig.proxy.drop_replies(0)
    dropped = rig.proxy.replies_dropped - before
    notes = await rig.settle(talks)
    doubts = [f"only {dropped} replies could be dropped"] if dropped < DROPPED_MIN else []
    return seen_in(talks, notes=[f"{dropped} replies dropped", *notes], doubts=doubts)


TRIAL = Trial(
    name="dropped-replies",
    question=f"When one in {ONE_IN} replies is lost after the work was done, is anything stored twice, or lost?",
    run=run,
    unfit=without_server,
)
