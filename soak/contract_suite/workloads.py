"""Conversations that every front end holds: the analyses with real libraries, the checks with a team's own store.

Each says what it has to say, reads everything to the end, and returns what it saw.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from soak.checker.outcome import Outcome
from soak.checker.text import HARD_TEXTS, LOOKALIKES
from soak.contract_suite.conversation import CheckedConversation
from soak.stores.protocol import MemoryStore

WRITERS = 8
WRITER_TURNS = 50
SAME_TURNS = 16
LOOKALIKE_TURNS = 2
FORGOTTEN_TURNS = 10
TURNS_ANEW = 3
LONG_TURNS = 1_050
"""More than the page or cap that clients have by default."""
LONG_SECONDS_MAX = 1_200.0
"""Some libraries read or write the whole session for each message: three minutes on a quiet machine."""
LAST = 50
ALTERNATING_TURNS = 20


class Participants(Protocol):
    """What a workload needs: conversations, and ways to the memory, each as another process would have."""

    def conversation(self, name: str, texts: Sequence[str] = ()) -> CheckedConversation:
        """Begin a session; its messages have easy texts, or the given ones in turn."""

    def store(self, number: int) -> MemoryStore:
        """Return one of the ways to the memory; the numbers go round."""

    async def settle(self, conversations: Sequence[CheckedConversation]) -> list[str]:
        """Read everything to the end; returns what is worth a note."""


class Held(NamedTuple):
    """What came of a workload."""

    conversations: Sequence[CheckedConversation]
    notes: Sequence[str] = ()
    doubts: Sequence[str] = ()
    """Why it proves nothing if nothing was found."""


async def concurrent_writers(memory: Participants) -> Held:
    conversation = memory.conversation("crowd")
    await asyncio.gather(*(speak(memory, conversation, writer, WRITER_TURNS) for writer in range(WRITERS)))
    return Held([conversation], await memory.settle([conversation]))


async def speak(
    memory: Participants, conversation: CheckedConversation, process: int, turns: int, writer: int | None = None
) -> None:
    """Append so many messages one after the other through one store, as the writer of the same number by default."""
    for _ in range(turns):
        await conversation.say(memory.store(process), process if writer is None else writer)


async def alternating_writers(memory: Participants) -> Held:
    """Let two processes take turns. One is answered before the other one speaks: the order is certain."""
    conversation = memory.conversation("turns")
    for turn in range(ALTERNATING_TURNS):
        await conversation.say(memory.store(turn % 2), turn % 2)
    return Held([conversation], await memory.settle([conversation]))


async def identical_turns(memory: Participants) -> Held:
    conversation = memory.conversation("again", ["continue"])
    for turn in range(SAME_TURNS):
        await conversation.say(memory.store(turn))
    return Held([conversation], await memory.settle([conversation]))


async def hard_text(memory: Participants, kinds: Iterable[str] = tuple(HARD_TEXTS)) -> Held:
    """Say texts that stores are known to spoil. To refuse one openly is no loss; to change it is."""
    conversations, refused = [], []
    for number, kind in enumerate(kinds):
        texts = HARD_TEXTS[kind]
        conversation = memory.conversation(f"hard{number}", texts)
        conversations.append(conversation)
        for _ in texts:
            await conversation.say(memory.store(number))
        if conversation.outcomes[Outcome.OK] < len(texts):
            refused.append(kind)
    notes = [f"not taken: {', '.join(refused)}"] if refused else []
    return Held(conversations, [*notes, *await memory.settle(conversations)])


async def lookalike_sessions(memory: Participants, kinds: Iterable[str] = tuple(LOOKALIKES)) -> Held:
    """Talk in sessions whose names differ in one way only, and forget one of them."""
    by_kind: dict[str, list[CheckedConversation]] = {}
    for kind in kinds:
        alike = by_kind[kind] = [memory.conversation(f"{kind.replace(' ', '-')}={name}") for name in LOOKALIKES[kind]]
        for turn in range(LOOKALIKE_TURNS):
            for number, conversation in enumerate(alike):
                await conversation.say(memory.store(number + turn))
    everything = [conversation for alike in by_kind.values() for conversation in alike]
    notes = await memory.settle(everything)
    for alike in by_kind.values():
        await alike[0].forget(memory.store(0))
    notes += await memory.settle(everything)
    mixed_up = [kind for kind, alike in by_kind.items() if any(one.found for one in alike)]
    told_apart = [f"names that differ only in: {', '.join(mixed_up)}"] if mixed_up else []
    return Held(everything, [*told_apart, *notes])


async def forgetting(memory: Participants) -> Held:
    """Forget a conversation through one process and read it through another; then begin it again."""
    forgotten, neighbour = memory.conversation("forgotten"), memory.conversation("remembered")
    for turn in range(FORGOTTEN_TURNS):
        await forgotten.say(memory.store(turn))
        await neighbour.say(memory.store(turn))
    await forgotten.read(memory.store(1))
    outcome = await forgotten.forget(memory.store(0))
    await forgotten.read(memory.store(1))
    for turn in range(TURNS_ANEW):
        await forgotten.say(memory.store(turn))
    notes = await memory.settle([forgotten, neighbour])
    return Held([forgotten, neighbour], notes, ["the forget was not acknowledged"] if outcome is not Outcome.OK else [])


async def long_session(memory: Participants) -> Held:
    conversation = memory.conversation("long")
    until = time.monotonic() + LONG_SECONDS_MAX
    said = 0
    while said < LONG_TURNS and time.monotonic() < until:
        await conversation.say(memory.store(0))
        said += 1
    notes = await memory.settle([conversation])
    await conversation.read_last(memory.store(0), LAST)
    acknowledged = conversation.outcomes[Outcome.OK]
    doubt = f"{said} were said in {LONG_SECONDS_MAX:.0f} s and {acknowledged} acknowledged, {LONG_TURNS} are needed"
    return Held([conversation], notes, [doubt] if acknowledged < LONG_TURNS else [])
