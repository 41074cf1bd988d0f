"""What was forgotten is gone, stays gone, and takes nothing else with it."""

from __future__ import annotations

import asyncio

from soak.checker.message import Message
from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.comparison import broken, shown
from soak.pytest_plugin.memory import Memory

LATE_SECONDS = 0.5
"""How long a write that was held back is waited for."""
RACES = 5


class Forgetting:
    """The right to be forgotten."""

    @check
    async def test_a_forgotten_session_is_gone_and_stays_gone(self, soak_memory: Memory) -> None:
        gone, stays = soak_memory.session("gone"), soak_memory.session("stays")
        store, other = await soak_memory.open(), await soak_memory.open()
        kept = soak_memory.turns(stays, 3)
        await soak_memory.say(store, [*soak_memory.turns(gone, 5), *kept])
        await soak_memory.recall(other, gone)
        await store.forget(gone)
        await store.forget(soak_memory.session("never was"))
        who = "A user who asked to be forgotten"
        await soak_memory.expect(who, store, gone, [])
        await soak_memory.expect(who, other, gone, [])
        await asyncio.sleep(LATE_SECONDS)
        await soak_memory.expect(f"{who} half a second ago", store, gone, [])
        await soak_memory.expect(f"{who} half a second ago", await soak_memory.open(), gone, [])
        await soak_memory.expect("Another user", store, stays, kept)

    @check
    async def test_a_forgotten_session_begins_anew(self, soak_memory: Memory) -> None:
        session = soak_memory.session("anew")
        store, other = await soak_memory.open(), await soak_memory.open()
        await soak_memory.say(store, soak_memory.turns(session, 3))
        await soak_memory.say(other, soak_memory.turns(session, 3, writer=1))
        await soak_memory.recall(store, session)
        await other.forget(session)
        # The first process knew the conversation and was not told that it is forgotten.
        again = soak_memory.turns(session, 3, first=4)
        await soak_memory.say(store, again)
        who = "A user who asked to be forgotten and then says something new"
        await soak_memory.expect(who, store, session, again)
        await soak_memory.expect(who, other, session, again)

    @check
    async def test_words_that_race_a_forget_bring_nothing_back(self, soak_memory: Memory) -> None:
        store, other = await soak_memory.open(), await soak_memory.open()
        for number in range(RACES):
            session = soak_memory.session(f"race{number}")
            before = soak_memory.turns(session, 4)
            racing = [soak_memory.turns(session, 4, writer=writer) for writer in (1, 2, 3)]
            after = soak_memory.turns(session, 2, writer=4)
            await soak_memory.say(store, before)
            await asyncio.gather(*(soak_memory.say(store, turns) for turns in racing), other.forget(session))
            await soak_memory.say(store, after)
            await asyncio.sleep(LATE_SECONDS / RACES)
            await _compare(soak_memory, session, before, after, await soak_memory.recall(store, session))


async def _compare(
    memory: Memory, session: str, before: list[Message], after: list[Message], read: list[object]
) -> None:
    # A read that lags may still show the old or not yet the new.
    deadline = asyncio.get_running_loop().time() + memory.staleness_seconds
    store = await memory.open()
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
        read = await memory.recall(store, session)
        if all(message in read for message in after) and not any(message in read for message in before):
            return
    back = [message for message in before if message in read]
    if back:
        broken(
            f"A user who asked to be forgotten while still talking is reminded of {shown(back[0])} (resurrected)",
            f"{len(back)} of {len(before)} messages acknowledged before the forget was sent are there again",
        )
    missing = [message for message in after if message not in read]
    if memory.contract.retained_messages is None and missing:
        broken(f"A user who went on talking after being forgotten misses {shown(missing[0])} (lost)")
