"""What is said comes back: the same word again, hard words, many words, and in its own session only."""

from __future__ import annotations

import time

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.talk import Talk
from soak.analysis.trial import Trial
from soak.checker.outcome import Outcome
from soak.checker.text import HARD_TEXTS, LOOKALIKES
from soak.subjects.description import Subject

SAME_TURNS = 16
LOOKALIKE_TURNS = 2
FORGOTTEN_TURNS = 10
TURNS_ANEW = 3
LONG_TURNS = 1_050
"""More than the page or cap that clients have by default."""
SAYING_SECONDS_MAX = 1_200.0
"""Some libraries read or write the whole session for each message: three minutes on a quiet machine."""
READING_SECONDS_MAX = 120.0
LAST = 50


async def _say_the_same(rig: Rig) -> Tried:
    talk = rig.talk("again", ["continue"])
    for turn in range(SAME_TURNS):
        await talk.say(rig.store(turn), 0)
    return seen_in([talk], notes=await rig.settle([talk]))


def _has_no_identical_turns(subject: Subject) -> str | None:
    if subject.id_in_content:
        return "the library keeps nothing but the text, so the id stands in it and no two texts are the same"
    return None


async def _say_hard_text(rig: Rig) -> Tried:
    """Say texts that stores are known to spoil. To refuse one openly is no loss; to change it is."""
    talks = []
    refused = []
    for number, (kind, texts) in enumerate(HARD_TEXTS.items()):
        talk = rig.talk(f"hard{number}", texts)
        talks.append(talk)
        for _ in texts:
            await talk.say(rig.store(number))
        if talk.outcomes[Outcome.OK] < len(texts):
            refused.append(kind)
    notes = [f"not taken: {', '.join(refused)}"] if refused else []
    return seen_in(talks, notes=[*notes, *await rig.settle(talks)])


async def _confuse_names(rig: Rig) -> Tried:
    """Talk in sessions whose names differ in one way only, and forget one of them."""
    by_kind: dict[str, list[Talk]] = {}
    for kind, names in LOOKALIKES.items():
        talks = by_kind[kind] = [rig.talk(f"{kind.replace(' ', '-')}={name}") for name in names]
        for turn in range(LOOKALIKE_TURNS):
            for number, talk in enumerate(talks):
                await talk.say(rig.store(number + turn))
    everything = [talk for talks in by_kind.values() for talk in talks]
    notes = await rig.settle(everything)
    for talks in by_kind.values():
        await talks[0].forget(rig.store(0))
    notes += await rig.settle(everything)
    mixed_up = [kind for kind, talks in by_kind.items() if any(talk.found for talk in talks)]
    told = [f"names that differ only in: {', '.join(mixed_up)}"] if mixed_up else []
    return seen_in(everything, notes=[*told, *notes])


async def _forget(rig: Rig) -> Tried:
    """Forget a conversation through one process and read it through another; then begin it anew."""
    talk, neighbour = rig.talk("forgotten"), rig.talk("remembered")
    for turn in range(FORGOTTEN_TURNS):
        await talk.say(rig.store(turn))
        await neighbour.say(rig.store(turn))
    await talk.read(rig.store(1))
    outcome = await talk.forget(rig.store(0))
    await talk.read(rig.store(1))
    for turn in range(TURNS_ANEW):
        await talk.say(rig.store(turn))
    notes = await rig.settle([talk, neighbour])
    doubts = ["the forget was not acknowledged"] if outcome is not Outcome.OK else []
    return seen_in([talk, neighbour], notes=notes, doubts=doubts)


async def _talk_for_long(rig: Rig) -> Tried:
    talk = rig.talk("long")
    until = time.monotonic() + SAYING_SECONDS_MAX
    said = 0
    while said < LONG_TURNS and time.monotonic() < until:
        await talk.say(rig.store(0))
        said += 1
    notes = await rig.settle([talk])
    await talk.read_last(rig.store(0), LAST)
    acknowledged = talk.outcomes[Outcome.OK]
    doubt = f"{said} were said in {SAYING_SECONDS_MAX:.0f} s and {acknowledged} acknowledged, {LONG_TURNS} are needed"
    return seen_in([talk], notes=notes, doubts=[doubt] if acknowledged < LONG_TURNS else [])


IDENTICAL_TURNS = Trial(
    name="identical-turns",
    question=f"Is 'continue' there {SAME_TURNS} times when it was said {SAME_TURNS} times?",
    run=_say_the_same,
    unfit=_has_no_identical_turns,
)
HARD_TEXT = Trial(
    name="hard-text",
    question="Does every text come back as it was said: scripts, emoji, NUL, quotes, 32 KiB?",
    run=_say_hard_text,
)
COLLIDING_SESSIONS = Trial(
    name="colliding-sessions",
    question="Are sessions apart whose names differ only in case, a comma, a slash …, also when one is forgotten?",
    run=_confuse_names,
)
FORGETTING = Trial(
    name="forgetting",
    question="Is a forgotten session gone for every process, its neighbour whole, and can it begin anew?",
    run=_forget,
)
LONG_SESSION = Trial(
    name="long-session",
    question=f"Does a session of {LONG_TURNS:,} messages come back whole, and are the last {LAST} the last {LAST}?",
    run=_talk_for_long,
    seconds_max=SAYING_SECONDS_MAX + READING_SECONDS_MAX,
)
