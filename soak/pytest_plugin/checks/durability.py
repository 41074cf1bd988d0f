"""What was acknowledged survives a restart, and a crash as far as the contract promises."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from soak.checker.message import Message
from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.checks.outage import TIMEOUT_SECONDS, breakable, during, expect_kept, recovered
from soak.pytest_plugin.comparison import broken, shown
from soak.pytest_plugin.memory import Memory
from soak.pytest_plugin.server import SoakServer
from soak.stores.protocol import MemoryStore

LOSS_SECONDS_MAX = 5.0
"""The longest window of tolerated loss that the suite waits out."""
MARGIN_SECONDS = 0.3
TALKING_SECONDS = 0.2


class Durability:
    """The user says something, the server goes down and comes back, the user comes back too."""

    @check
    async def test_a_clean_restart_loses_nothing(self, soak_memory: Memory) -> None:
        servers = breakable(soak_memory)
        if soak_memory.contract.crash_loss_seconds is None:
            pytest.skip("the contract promises nothing after a restart: a cache")
        session = soak_memory.session("restart")
        store = await soak_memory.open()
        said = soak_memory.turns(session, 10)
        await soak_memory.say(store, said)
        async with during(servers, SoakServer.stop, SoakServer.start):
            pass
        read = await recovered(soak_memory, store, session, 1)
        expect_kept("A user who comes back after a restart of the server", soak_memory.kept(said), read)

    @check
    async def test_a_crash_loses_no_more_than_promised(self, soak_memory: Memory) -> None:
        servers = breakable(soak_memory)
        loss = soak_memory.contract.crash_loss_seconds
        if loss is None:
            pytest.skip("the contract promises nothing after a crash: a cache")
        if loss > LOSS_SECONDS_MAX:
            pytest.skip(f"the contract tolerates the loss of {loss:g} s, which is longer than the suite waits")
        session = soak_memory.session("crash")
        store = await soak_memory.open(timeout_seconds=TIMEOUT_SECONDS)
        old = soak_memory.turns(session, 10)
        await soak_memory.say(store, old)
        await asyncio.sleep(loss + MARGIN_SECONDS if loss else 0)
        young: list[Message] = []
        talking = asyncio.ensure_future(_talk_until_error(soak_memory, store, session, young))
        await asyncio.sleep(TALKING_SECONDS)
        async with during(servers, SoakServer.kill, SoakServer.start):
            await asyncio.wait([talking])
        read = await recovered(soak_memory, store, session, 1)
        who = "A user who comes back after a crash of the server"
        if soak_memory.contract.retained_messages is None:
            expect_kept(who, old, read)
            _expect_tail(who, young if loss else [], read)
        if not loss:
            expect_kept(who, soak_memory.kept([*old, *young]), read)


async def _talk_until_error(memory: Memory, store: MemoryStore, session: str, acknowledged: list[Message]) -> None:
    """Say one thing after the other until the server is gone."""
    with contextlib.suppress(Exception):
        for message in memory.turns(session, 100_000, writer=1):
            await store.append(session, message)
            acknowledged.append(message)
            await asyncio.sleep(0.001)


def _expect_tail(who: str, young: list[Message], read: list[object]) -> None:
    """Fail on a hole: only the end of what was said may be missing."""
    lost = next((message for message in young if message not in read), None)
    later = [message for message in young if lost is not None and message.seq > lost.seq and message in read]
    if lost is not None and later:
        broken(f"{who} misses {shown(lost)} although {shown(later[0])}, said later, is there: a hole (lost)")
