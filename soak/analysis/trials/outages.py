"""The server is away, or its replies get lost; the library's own client decides what to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.talk import Talk
from soak.analysis.trial import Trial, without_server
from soak.analysis.trials.writers import speak
from soak.checker.outcome import Outcome

SESSIONS = 4
DROPPED_TURNS = 25
ONE_IN = 7
"""Acknowledgements of writes per one that is lost; odd, so that it meets every step of a library that makes two."""
DROPPED_MIN = 3
READ_TURNS = 6
TURNS_BEFORE = 4
TURNS_AWAY = 2
TURNS_AFTER = 3


async def _drop_replies(rig: Rig) -> Tried:
    talks = [rig.talk(f"dropped{number}") for number in range(SESSIONS)]
    before = rig.proxy.replies_dropped
    rig.proxy.drop_replies(ONE_IN)
    try:
        # A session each: what stands twice or is out of order then, no other writer has put there.
        await asyncio.gather(*(speak(rig, talk, number, DROPPED_TURNS, 0) for number, talk in enumerate(talks)))
    finally:
        rig.proxy.drop_replies(0)
    dropped = rig.proxy.replies_dropped - before
    notes = await rig.settle(talks)
    doubts = [f"only {dropped} replies could be dropped"] if dropped < DROPPED_MIN else []
    return seen_in(talks, notes=[f"{dropped} replies dropped", *notes], doubts=doubts)


@contextlib.asynccontextmanager
async def _server_away(rig: Rig) -> AsyncIterator[None]:
    await rig.proxy.refuse()
    rig.proxy.reset_connections()
    try:
        yield
    finally:
        await rig.proxy.accept()


async def _read_meanwhile(rig: Rig) -> Tried:
    """Read while the server is away: "no answer" and "nothing remembered" are different answers."""
    talks = [rig.talk(f"away{number}") for number in range(SESSIONS)]
    await asyncio.gather(*(speak(rig, talk, number, READ_TURNS, 0) for number, talk in enumerate(talks)))
    async with _server_away(rig):
        answered = sum(await asyncio.gather(*(talk.read(rig.store(number)) for number, talk in enumerate(talks))))
    notes = await rig.settle(talks)
    return seen_in(talks, notes=[f"{answered} of {SESSIONS} reads were answered while the server was away", *notes])


async def _write_meanwhile(rig: Rig) -> Tried:
    """Write while the server is away: what is acknowledged then has to be there afterwards."""
    talks = [rig.talk(f"writing{number}") for number in range(SESSIONS)]

    async def all_speak(turns: int) -> None:
        await asyncio.gather(*(_speak_alone(rig, talk, number, turns) for number, talk in enumerate(talks)))

    await all_speak(TURNS_BEFORE)
    before = sum(talk.outcomes[Outcome.OK] for talk in talks)
    async with _server_away(rig):
        await all_speak(TURNS_AWAY)
        meanwhile = sum(talk.outcomes[Outcome.OK] for talk in talks) - before
    # A library that has just lost its connections may need a moment; what it refuses meanwhile is its own affair.
    notes = await rig.settle(talks)
    await all_speak(TURNS_AFTER)
    notes += await rig.settle(talks)
    return seen_in(talks, notes=[f"{meanwhile} writes were acknowledged while the server was away", *notes])


async def _speak_alone(rig: Rig, talk: Talk, number: int, turns: int) -> None:
    """Say so much as the only one in a session, and nothing more once there was no answer at all.

    The library may still be at it when everything is back; whoever spoke on would then be a second writer.
    """
    for _ in range(turns):
        if talk.is_busy:
            return
        await talk.say(rig.store(number))


DROPPED_REPLIES = Trial(
    name="dropped-replies",
    question=f"When one in {ONE_IN} replies is lost after the work was done, is anything stored twice, or lost?",
    run=_drop_replies,
    unfit=without_server,
)
OUTAGE_READS = Trial(
    name="outage-reads",
    question="While the server is away, does a read say so, or does it answer that nothing is remembered?",
    run=_read_meanwhile,
    unfit=without_server,
)
OUTAGE_WRITES = Trial(
    name="outage-writes",
    question="Is what was acknowledged while the server was away there afterwards?",
    run=_write_meanwhile,
    unfit=without_server,
)
