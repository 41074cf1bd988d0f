"""The last N are the newest N, in order, whatever N is."""

from __future__ import annotations

import pytest

from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.memory import Memory

SHORT = 12
LONG = 1_050
"""More than the page size, cap or COUNT that a client library may have by default."""


class Windows:
    """Reads of a part of the conversation."""

    @pytest.mark.parametrize("last", [1, 5, SHORT - 1, SHORT, SHORT + 1, SHORT + 100])
    @check
    async def test_the_last_n_are_the_newest_n(self, soak_memory: Memory, last: int) -> None:
        session = soak_memory.session("window")
        said = soak_memory.turns(session, SHORT)
        store = await soak_memory.open()
        await soak_memory.say(store, said)
        who = f"An assistant that reads the last {last} of {SHORT} messages"
        await soak_memory.expect(who, store, session, said, last)

    @check
    async def test_the_last_none_are_none(self, soak_memory: Memory) -> None:
        session = soak_memory.session("none")
        store = await soak_memory.open()
        said = soak_memory.turns(session, 3)
        await soak_memory.say(store, said)
        await soak_memory.expect("An assistant that asks for the last 0 messages", store, session, said, 0)

    @check
    async def test_a_conversation_of_a_thousand_turns_is_read_whole(self, soak_memory: Memory) -> None:
        session = soak_memory.session("long")
        said = soak_memory.turns(session, LONG)
        store = await soak_memory.open()
        await soak_memory.say(store, said)
        who = f"A user who has said {LONG} things"
        await soak_memory.expect(who, store, session, said)
        for last in (10, LONG - 20):
            await soak_memory.expect(f"{who} and whose assistant reads the last {last}", store, session, said, last)
