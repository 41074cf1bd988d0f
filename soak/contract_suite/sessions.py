"""A conversation is seen in no other session or namespace; a forgotten one is gone, and takes nothing with it."""

from __future__ import annotations

import asyncio

from soak.checker.message import Message
from soak.checker.text import LOOKALIKES
from soak.contract_suite import administration
from soak.contract_suite.check import check
from soak.contract_suite.comparison import broken, shown
from soak.contract_suite.memory import Memory
from soak.contract_suite.workloads import forgetting, lookalike_sessions

LATE_SECONDS = 0.5
"""How long a write that was held back is waited for."""
RACES = 5
_ALL_OF_OURS = "soak_t_"


@check(kind=LOOKALIKES)
async def sessions_that_look_alike_are_apart(memory: Memory, kind: str) -> None:
    await memory.hold(f"A user whose id differs from another's only in {kind}", lookalike_sessions, [kind])


@check()
async def namespaces_are_apart(memory: Memory) -> None:
    session = memory.session("tenant")
    ours = await memory.open()
    theirs = await memory.open(namespace=memory.other_namespace())
    said = memory.turns(session, 3)
    await memory.say(ours, said)
    await memory.expect("A user of another tenant, with the same id", theirs, session, [])
    answer = [memory.message(session, 1, "something else", writer=1)]
    await memory.say(theirs, answer)
    await memory.expect("A user of one tenant", ours, session, said)
    await theirs.forget(session)
    await memory.expect("A user whose namesake at another tenant asked to be forgotten", ours, session, said)


@check()
async def everything_it_keeps_lies_under_its_namespace(memory: Memory) -> None:
    # On a server that others use, others may write at the same time.
    ours = [server for server in memory.servers.values() if server.protected is None]
    before = {server: await administration.names_outside(server.kind, server.url, _ALL_OF_OURS) for server in ours}
    store = await memory.open()
    await memory.say(store, memory.turns(memory.session("tidy"), 2))
    for server in ours:
        strays = await administration.names_outside(server.kind, server.url, _ALL_OF_OURS) - before[server]
        if strays:
            broken(
                f"Users of staging meet the words of a test run: {len(strays)} names on the {server.kind} server "
                f"do not begin with the namespace, such as {min(strays)!r}"
            )


@check()
async def a_forgotten_session_is_gone_and_stays_gone(memory: Memory) -> None:
    gone, stays = memory.session("gone"), memory.session("stays")
    store, other = await memory.open(), await memory.open()
    kept = memory.turns(stays, 3)
    await memory.say(store, [*memory.turns(gone, 5), *kept])
    await memory.recall(other, gone)
    await store.forget(gone)
    await store.forget(memory.session("never was"))
    who = "A user who asked to be forgotten"
    await memory.expect(who, store, gone, [])
    await memory.expect(who, other, gone, [])
    await asyncio.sleep(LATE_SECONDS)
    await memory.expect(f"{who} half a second ago", store, gone, [])
    await memory.expect(f"{who} half a second ago", await memory.open(), gone, [])
    await memory.expect("Another user", store, stays, kept)


@check()
async def a_forgotten_session_begins_anew(memory: Memory) -> None:
    await memory.hold("A user who asked to be forgotten and then says something new", forgetting)


@check()
async def words_that_race_a_forget_bring_nothing_back(memory: Memory) -> None:
    store, other = await memory.open(), await memory.open()
    for number in range(RACES):
        session = memory.session(f"race{number}")
        before = memory.turns(session, 4)
        racing = [memory.turns(session, 4, writer=writer) for writer in (1, 2, 3)]
        after = memory.turns(session, 2, writer=4)
        await memory.say(store, before)
        await asyncio.gather(*(memory.say(store, turns) for turns in racing), other.forget(session))
        await memory.say(store, after)
        await asyncio.sleep(LATE_SECONDS / RACES)
        await _compare(memory, session, before, after, await memory.recall(store, session))


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
