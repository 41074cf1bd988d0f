"""In a memory that can be searched, what is remembered is found: by its own words, in its own session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from soak.checker.message import Message
from soak.checker.text import HARD_TEXTS
from soak.contract_suite.check import check
from soak.contract_suite.comparison import broken, not_tried, shown
from soak.contract_suite.memory import Memory, described
from soak.stores.protocol import MemoryStore, Search, search_of

NEAREST = 10
_POLL_SECONDS = 0.02


@check()
async def what_was_said_is_found_by_its_own_words(memory: Memory) -> None:
    session = memory.session("found")
    store, search = await _searchable(memory)
    said = memory.turns(session, 15)
    await memory.say(store, said)
    for message in memory.kept(said):
        await _expect_found(memory, search, session, message, NEAREST)


@check()
async def a_search_and_a_read_show_the_same_messages(memory: Memory) -> None:
    session = memory.session("same")
    store, search = await _searchable(memory)
    said = [
        *memory.turns(session, 6),
        *(memory.message(session, seq, "continue", writer=1) for seq in range(1, 9)),
    ]
    await memory.say(store, said)
    kept = memory.kept(said)
    for message in kept:
        await _expect_found(memory, search, session, message, len(said))
    found = await _ask(search, session, "continue", len(said) + 10)
    read = await memory.recall(store, session)
    strange = [item for item in found if item not in read]
    if strange:
        broken(f"A user who searches is shown what no read of the session shows: {shown(strange[0])}")
    if len(found) != len(kept):
        broken(f"A user who searches with room for all of {len(kept)} messages is shown {len(found)}")


@check()
async def a_search_returns_no_more_than_was_asked_for(memory: Memory) -> None:
    session = memory.session("limit")
    store, search = await _searchable(memory)
    said = memory.turns(session, 12)
    await memory.say(store, said)
    for limit in (1, 5):
        found = await _ask(search, session, said[3].content, limit)
        if len(found) > limit:
            broken(f"A user who searches for at most {limit} messages is shown {len(found)} (window)")
    if await _ask(search, memory.session("nobody"), said[3].content, 5):
        broken("A user who has said nothing yet searches, and finds something (leaked)")


@check()
async def hard_text_is_found(memory: Memory) -> None:
    store, search = await _searchable(memory)
    for number, texts in enumerate(HARD_TEXTS.values()):
        session = memory.session(f"hard{number}")
        said = [memory.message(session, seq, text) for seq, text in enumerate(texts, start=1)]
        await memory.say(store, said)
        for message in memory.kept(said):
            await _expect_found(memory, search, session, message, max(NEAREST, len(said)))


@check()
async def a_search_sees_one_session_of_one_namespace(memory: Memory) -> None:
    mine, yours = memory.session("mine"), memory.session("yours")
    store, search = await _searchable(memory)
    elsewhere = await memory.open(namespace=memory.other_namespace())
    secret = memory.message(yours, 1, "the code is four seven one one")
    theirs = memory.message(mine, 1, "the code is four seven one one", writer=1)
    await memory.say(store, [secret])
    await memory.say(elsewhere, [theirs])
    await memory.say(store, [memory.message(mine, 1, "what was the code again?")])
    found = await _ask(search, mine, secret.content, NEAREST)
    for other, whose in ((secret, "another user"), (theirs, "a user of another tenant")):
        if other in found:
            broken(f"A user who searches is shown {shown(other)}, said by {whose} (leaked)")


@check()
async def nothing_of_a_forgotten_session_is_found(memory: Memory) -> None:
    gone, stays = memory.session("gone"), memory.session("stays")
    store, search = await _searchable(memory)
    said, kept = memory.turns(gone, 4), memory.turns(stays, 4)
    await memory.say(store, [*said, *kept])
    await store.forget(gone)
    await asyncio.sleep(memory.staleness_seconds)
    for message in said:
        found = await _ask(search, gone, message.content, NEAREST)
        if found:
            broken(f"A user who asked to be forgotten is shown {shown(found[0])} by a search (resurrected)")
    for message in memory.kept(kept):
        await _expect_found(memory, search, stays, message, NEAREST)


async def _searchable(memory: Memory) -> tuple[MemoryStore, Search]:
    store = await memory.open()
    search = search_of(store)
    if search is None:
        not_tried("the store has no search(session, text, limit)")
    return store, search


async def _ask(search: Search, session: str, text: str, limit: int) -> Sequence[object]:
    """Search; fails where the store raises, for nothing is wrong with its server."""
    try:
        return list(await search(session, text, limit))
    except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
        broken(f"A user searches the conversation and meets an error in its place: {described(error)}")


async def _expect_found(memory: Memory, search: Search, session: str, message: Message, limit: int) -> None:
    """Fail unless a search for its own words shows the message; one that may lag is given the promised time."""
    deadline = time.monotonic() + memory.staleness_seconds
    while message not in (found := await _ask(search, session, message.content, limit)):
        if time.monotonic() >= deadline:
            broken(
                f"A user searches for the very words of {shown(message)} and does not find it (unfindable)",
                f"{len(found)} messages were found, {limit} were asked for",
            )
        await asyncio.sleep(_POLL_SECONDS)
