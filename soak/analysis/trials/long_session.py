"""A conversation longer than the page or cap that clients have by default."""

from __future__ import annotations

import time

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.trial import Trial
from soak.checker.outcome import Outcome

TURNS = 1_050
SAYING_SECONDS_MAX = 1_200.0
"""Some libraries read or write the whole session for each message: three minutes on a quiet machine."""
READING_SECONDS_MAX = 120.0
LAST = 50


async def run(rig: Rig) -> Tried:
    talk = rig.talk("long")
    until = time.monotonic() + SAYING_SECONDS_MAX
    said = 0
    while said < TURNS and time.monotonic() < until:
        await talk.say(rig.store(0))
        said += 1
    notes = await rig.settle([talk])
    await talk.read_last(rig.store(0), LAST)
    acknowledged = talk.outcomes[Outcome.OK]
    doubts = [f"{said} were said in {SAYING_SECONDS_MAX:.0f} s and {acknowledged} acknowledged, {TURNS} are needed"]
    return seen_in([talk], notes=notes, doubts=doubts if acknowledged < TURNS else [])


TRIAL = Trial(
    name="long-session",
    question=f"Does a session of {TURNS:,} messages come back whole, and are the last {LAST} the last {LAST}?",
    run=run,
    seconds_max=SAYING_SECONDS_MAX + READING_SECONDS_MAX,
)
