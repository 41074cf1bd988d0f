"""Every word, role and repetition comes back, whole or as a window, and nothing else does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from soak.checker.contract import Reads
from soak.checker.message import Message
from soak.checker.text import HARD_TEXTS, LONE_SURROGATES
from soak.contract_suite import administration
from soak.contract_suite.check import check
from soak.contract_suite.comparison import broken, compare
from soak.contract_suite.memory import Memory
from soak.contract_suite.workloads import LONG_TURNS, SAME_TURNS, hard_text, identical_turns, long_session
from soak.servers.kinds import POSTGRES_REPLICA
from soak.stores.protocol import MemoryStore

SHORT = 12


@check()
async def a_conversation_comes_back_as_it_was(memory: Memory) -> None:
    session = memory.session("talk")
    roles = ("user", "assistant", "tool", "assistant", "system")
    said = [
        memory.message(session, seq, f"turn {seq}: my favourite number is {seq * 7}", role=roles[seq % 5])
        for seq in range(1, 21)
    ]
    store = await memory.open()
    await memory.say(store, said)
    await memory.expect("A user who reads the conversation again", store, session, said)


@check(kind=HARD_TEXTS)
async def hard_text_comes_back_unchanged(memory: Memory, kind: str) -> None:
    await memory.hold(f"A user who writes {kind}", hard_text, [kind], may_refuse=kind in memory.refused_texts)


@check()
async def what_is_no_text_is_kept_or_refused_and_never_changed(memory: Memory) -> None:
    session = memory.session("surrogate")
    store = await memory.open()
    before, after = (memory.message(session, seq, f"plain {seq}") for seq in (1, 9))
    odd = [memory.message(session, seq, text) for seq, text in enumerate(LONE_SURROGATES, start=2)]
    await memory.say(store, [before])
    taken = [message for message in odd if await _is_taken(store, message)]
    await memory.say(store, [after])
    await memory.expect("A user whose client sends half an emoji", store, session, [before, *taken, after])


@check()
async def identical_turns_are_all_kept(memory: Memory) -> None:
    await memory.hold(f'A user who says "continue" {SAME_TURNS} times', identical_turns)


@check()
async def a_session_nobody_wrote_to_is_empty(memory: Memory) -> None:
    store = await memory.open()
    for last in (None, 3):
        read = await memory.recall(store, memory.session("nobody"), last)
        compare("A user who has said nothing yet", [], read)


@check()
async def a_second_process_reads_what_was_acknowledged(memory: Memory) -> None:
    session = memory.session("shared")
    writing, reading = await memory.open(), await memory.open()
    said: list[Message] = []
    for message in memory.turns(session, 10):
        await memory.say(writing, [message])
        said.append(message)
        await memory.expect("A user whose next request is served by another process", reading, session, said)


@check()
async def what_was_just_said_is_in_the_next_read(memory: Memory) -> None:
    session = memory.session("fresh")
    store = await memory.open()
    said: list[Message] = []
    # A replica may lag at any moment; where fresh reads are promised, it is made to.
    async with contextlib.AsyncExitStack() as lag:
        if memory.contract.reads is Reads.READ_YOUR_WRITES:
            await lag.enter_async_context(_lagging_replica(memory))
        for message in memory.turns(session, 20):
            await memory.say(store, [message])
            said.append(message)
            await memory.expect("A user who reloads the page after saying something", store, session, said)


@check()
async def closing_erases_nothing_and_releases_its_connections(memory: Memory) -> None:
    session = memory.session("closed")
    said = memory.turns(session, 5)
    ours = [server for server in memory.servers.values() if server.protected is None]
    before = {server.kind: await server.connections() for server in ours}
    for message in said:
        store = await memory.open()
        await memory.say(store, [message])
        await asyncio.gather(*(memory.recall(store, session) for _ in range(8)))
        await memory.close(store)
    store = await memory.open()
    await memory.expect("A user who comes back after the service was redeployed", store, session, said)
    await memory.close(store)
    for server in ours:
        left = await _left_open(server.connections, before[server.kind])
        if left:
            broken(
                f"Users are turned away once the {server.kind} server has no connections left: "
                f"{left} are still open after close()"
            )


@check(last=[1, 5, SHORT - 1, SHORT, SHORT + 1, SHORT + 100])
async def the_last_n_are_the_newest_n(memory: Memory, last: int) -> None:
    session = memory.session(f"window{last}")
    said = memory.turns(session, SHORT)
    store = await memory.open()
    await memory.say(store, said)
    who = f"An assistant that reads the last {last} of {SHORT} messages"
    await memory.expect(who, store, session, said, last)


@check()
async def the_last_none_are_none(memory: Memory) -> None:
    session = memory.session("none")
    store = await memory.open()
    said = memory.turns(session, 3)
    await memory.say(store, said)
    await memory.expect("An assistant that asks for the last 0 messages", store, session, said, 0)


@check()
async def a_conversation_of_a_thousand_turns_is_read_whole(memory: Memory) -> None:
    await memory.hold(f"A user who has said {LONG_TURNS} things", long_session)


async def _is_taken(store: MemoryStore, message: Message) -> bool:
    try:
        await store.append(message.session, message)
    except Exception:  # noqa: BLE001  refusing is allowed here, whatever it is raised as
        return False
    return True


@contextlib.asynccontextmanager
async def _lagging_replica(memory: Memory) -> AsyncIterator[None]:
    replica = memory.servers.get(POSTGRES_REPLICA.name)
    if replica is None or replica.protected is not None:
        yield
        return
    await administration.pause_replay(replica.url)
    try:
        yield
    finally:
        await administration.resume_replay(replica.url)


async def _left_open(count: Callable[[], Awaitable[int]], before: int) -> int:
    """Return how many connections more than before stay open; a server takes a moment to see them go."""
    left = 0
    for _ in range(100):
        left = await count() - before
        if left <= 0:
            return 0
        await asyncio.sleep(0.05)
    return left
