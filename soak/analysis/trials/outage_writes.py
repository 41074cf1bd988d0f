"""The server is away while somebody writes: what is acknowledged then has to be there afterwards."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial, without_server
from soak.analysis.trials.breaking import speak_alone
from soak.checker.outcome import Outcome

SESSIONS = 4
TURNS_BEFORE = 4
TURNS_AWAY = 2
TURNS_AFTER = 3


async def run(rig: Rig) -> Tried:
    talks = [rig.talk(f"writing{number}") for number in range(SESSIONS)]

    async def all_speak(turns: int) -> None:
        await asyncio.gather(*(speak_alone(rig, talk, number, turns) for number, talk in enumerate(talks)))

    await all_speak(TURNS_BEFORE)
    before = sum(talk.outcomes[Outcome.OK] for talk in talks)
    await rig.proxy.refuse()
    rig.proxy.reset_connections()
    try:
        await all_speak(TURNS_AWAY)
        meanwhile = sum(talk.outcomes[Outcome.OK] for talk in talks) - before
    finally:
        await rig.proxy.accept()
    # A library that has just lost its connections may need a moment; what it refuses meanwhile is its own affair.
    notes = await rig.settle(talks)
    await all_speak(TURNS_AFTER)
    notes += await rig.settle(talks)
    told = f"{meanwhile} writes were acknowledged while the server was away"
    return seen_in(talks, notes=[told, *notes])


TRIAL = Trial(
    name="outage-writes",
    question="Is what was acknowledged while the server was away there afterwards?",
    run=run,
    unfit=without_server,
)
