"""The server is away while somebody reads: "no answer" and "nothing remembered" are different answers."""

from __future__ import annotations

import asyncio

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial, without_server
from soak.analysis.trials.concurrent_writers import speak

SESSIONS = 4
TURNS = 6


async def run(rig: Rig) -> Tried:
    talks = [rig.talk(f"away{number}") for number in range(SESSIONS)]
    await asyncio.gather(*(speak(rig, talk, number, TURNS, 0) for number, talk in enumerate(talks)))
    await rig.proxy.refuse()
    rig.proxy.reset_connections()
    try:
        answered = sum(await asyncio.gather(*(talk.read(rig.store(number)) for number, talk in enumerate(talks))))
    finally:
        await rig.proxy.accept()
    notes = await rig.settle(talks)
    return seen_in(talks, notes=[f"{answered} of {SESSIONS} reads were answered while the server was away", *notes])


TRIAL = Trial(
    name="outage-reads",
    question="While the server is away, does a read say so, or does it answer that nothing is remembered?",
    run=run,
    unfit=without_server,
)
