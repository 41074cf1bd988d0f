"""What you write is what you read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from soak.checker.contract import Reads
from soak.checker.hard_text import HARD_TEXTS, LONE_SURROGATES
from soak.checker.message import Message
from soak.pytest_plugin import administration
from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.comparison import broken, compare
from soak.pytest_plugin.memory import Memory
from soak.servers.kinds import POSTGRES_REPLICA
from soak.stores.protocol import MemoryStore


class Content:
    """Every word, role and repetition comes back, and nothing else."""

    refused_texts: frozenset[str] = frozenset()
    """Kinds of hard text that the store openly refuses (append raises) instead of keeping them."""

    @check
    async def test_a_conversation_comes_back_as_it_was(self, soak_memory: Memory) -> None:
        session = soak_memory.session("talk")
        roles = ("user", "assistant", "tool", "assistant", "system")
        said = [
            soak_memory.message(session, seq, f"turn {seq}: my favourite number is {seq * 7}", role=roles[seq % 5])
            for seq in range(1, 21)
        ]
        store = await soak_memory.open()
        await soak_memory.say(store, said)
        await soak_memory.expect("A user who reads the conversation again", store, session, said)

    @pytest.mark.parametrize("kind", HARD_TEXTS)
    @check
    async def test_hard_text_comes_back_unchanged(self, soak_memory: Memory, kind: str) -> None:
        session = soak_memory.session("hard")
        said = [soak_memory.message(session, seq, text) for seq, text in enumerate(HARD_TEXTS[kind], start=1)]
        store = await soak_memory.open()
        if kind in self.refused_texts:
            said = [message for message in said if await _is_taken(store, message)]
        else:
            await soak_memory.say(store, said)
        await soak_memory.expect(f"A user who writes {kind}", store, session, said)

    @check
    async def test_what_is_no_text_is_kept_or_refused_and_never_changed(self, soak_memory: Memory) -> None:
        session = soak_memory.session("surrogate")
        store = await soak_memory.open()
        before, after = (soak_memory.message(session, seq, f"plain {seq}") for seq in (1, 9))
        odd = [soak_memory.message(session, seq, text) for seq, text in enumerate(LONE_SURROGATES, start=2)]
        await soak_memory.say(store, [before])
        taken = [message for message in odd if await _is_taken(store, message)]
        await soak_memory.say(store, [after])
        await soak_memory.expect("A user whose client sends half an emoji", store, session, [before, *taken, after])

    @check
    async def test_identical_turns_are_all_kept(self, soak_memory: Memory) -> None:
        session = soak_memory.session("again")
        said = [soak_memory.message(session, seq, "continue", role="user") for seq in range(1, 9)]
        store = await soak_memory.open()
        await soak_memory.say(store, said)
        await soak_memory.expect('A user who says "continue" eight times', store, session, said)

    @check
    async def test_a_session_nobody_wrote_to_is_empty(self, soak_memory: Memory) -> None:
        store = await soak_memory.open()
        for last in (None, 3):
            read = await soak_memory.recall(store, soak_memory.session("nobody"), last)
            compare("A user who has said nothing yet", [], read)

    @check
    async def test_a_second_process_reads_what_was_acknowledged(self, soak_memory: Memory) -> None:
        session = soak_memory.session("shared")
        writing, reading = await soak_memory.open(), await soak_memory.open()
        said: list[Message] = []
        for message in soak_memory.turns(session, 10):
            await soak_memory.say(writing, [message])
            said.append(message)
            await soak_memory.expect("A user whose next request is served by another process", reading, session, said)

    @check
    async def test_what_was_just_said_is_in_the_next_read(self, soak_memory: Memory) -> None:
        session = soak_memory.session("fresh")
        store = await soak_memory.open()
        said: list[Message] = []
        # A replica may lag at any moment; where fresh reads are promised, it is made to.
        async with contextlib.AsyncExitStack() as lag:
            if soak_memory.contract.reads is Reads.READ_YOUR_WRITES:
                await lag.enter_async_context(_lagging_replica(soak_memory))
            for message in soak_memory.turns(session, 20):
                await soak_memory.say(store, [message])
                said.append(message)
                await soak_memory.expect("A user who reloads the page after saying something", store, session, said)

    @check
    async def test_closing_erases_nothing_and_releases_its_connections(self, soak_memory: Memory) -> None:
        session = soak_memory.session("closed")
        said = soak_memory.turns(session, 5)
        ours = [server for server in soak_memory.servers.values() if server.protected is None]
        before = {server.kind: await server.connections() for server in ours}
        for message in said:
            store = await soak_memory.open()
            await soak_memory.say(store, [message])
            await asyncio.gather(*(soak_memory.recall(store, session) for _ in range(8)))
            await soak_memory.close(store)
        store = await soak_memory.open()
        await soak_memory.expect("A user who comes back after the service was redeployed", store, session, said)
        await soak_memory.close(store)
        for server in ours:
            left = await _left_open(server.connections, before[server.kind])
            if left:
                broken(
                    f"Users are turned away once the {server.kind} server has no connections left: "
                    f"{left} are still open after close()"
                )


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
    await memory.there(administration.pause_replay(replica.url))
    try:
        yield
    finally:
        await memory.there(administration.resume_replay(replica.url))


async def _left_open(count: Callable[[], Awaitable[int]], before: int) -> int:
    """Return how many connections more than before stay open; a server takes a moment to see them go."""
    left = 0
    for _ in range(100):
        left = await count() - before
        if left <= 0:
            return 0
        await asyncio.sleep(0.05)
    return left
