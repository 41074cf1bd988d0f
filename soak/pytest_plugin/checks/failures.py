"""Errors are raised and never swallowed."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from soak.checker.contract import Duplicates
from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.checks.outage import (
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    GaveUpError,
    attempt,
    breakable,
    during,
    expect_kept,
    read_meanwhile,
    recovered,
    say_meanwhile,
)
from soak.pytest_plugin.comparison import broken, shown
from soak.pytest_plugin.lost_reply import LostReplies
from soak.pytest_plugin.memory import Memory
from soak.pytest_plugin.server import SoakServer
from soak.servers.kinds import POSTGRES_REPLICA

REPLIES_LOST_MAX = 4
"""An append may take several exchanges with the server; the reply of each is lost in turn."""


class Failures:
    """A server that is away, silent, or refuses: the caller is told, or the message is really stored."""

    @check
    async def test_a_server_that_is_away_is_an_error(self, soak_memory: Memory) -> None:
        servers = breakable(soak_memory)
        session, wiped = soak_memory.session("away"), soak_memory.session("wiped")
        store = await soak_memory.open(timeout_seconds=TIMEOUT_SECONDS)
        said = soak_memory.turns(session, 3)
        await soak_memory.say(store, [*said, *soak_memory.turns(wiped, 2)])
        async with during(servers, SoakServer.stop, SoakServer.start):
            acknowledged, _ = await asyncio.gather(
                say_meanwhile(store, soak_memory.turns(session, 4, first=4)),
                read_meanwhile(soak_memory, store, session, said),
            )
            forgot = await attempt("forget", store.forget(wiped))
        read = await recovered(soak_memory, store, session, 1)
        expect_kept("A user who talks while the server is away", soak_memory.kept([*said, *acknowledged]), read)
        if not isinstance(forgot, Exception) and await soak_memory.recall(store, wiped):
            broken("A user who asked to be forgotten while the server was away was told yes and is still known")

    @check
    async def test_a_server_that_is_silent_is_an_error(self, soak_memory: Memory) -> None:
        trouble = during(breakable(soak_memory), SoakServer.pause, SoakServer.resume)
        await _talk_meanwhile(soak_memory, "A user who talks while the server hangs", trouble)

    @check
    async def test_a_server_that_is_silent_is_given_up(self, soak_memory: Memory) -> None:
        servers = breakable(soak_memory)
        session = soak_memory.session("waiting")
        store = await soak_memory.open(timeout_seconds=TIMEOUT_SECONDS)
        first, second = soak_memory.turns(session, 2)
        await soak_memory.say(store, [first])
        async with during(servers, SoakServer.pause, SoakServer.resume):
            answers = await asyncio.gather(
                attempt("append", store.append(session, second)), attempt("history", store.history(session))
            )
        waited = next((answer for answer in answers if isinstance(answer, GaveUpError)), None)
        if waited is not None:
            broken(
                f"A user waits in vain: {waited} neither returned nor raised within {PATIENCE_SECONDS:g} s, "
                f"and had been told to wait {TIMEOUT_SECONDS:g} s",
                "set a timeout on every call of the client library; the context has one in timeout_seconds",
            )

    @check
    async def test_a_write_that_is_refused_is_an_error(self, soak_memory: Memory) -> None:
        servers = [server for server in breakable(soak_memory) if server.kind != POSTGRES_REPLICA.name]
        trouble = during(servers, SoakServer.refuse_writes, SoakServer.accept_writes)
        await _talk_meanwhile(soak_memory, "A user who talks while the server is full", trouble)

    @check
    async def test_a_reply_that_is_lost_stores_nothing_twice(self, soak_memory: Memory) -> None:
        async with LostReplies(soak_memory.context().servers) as proxy:
            store = await soak_memory.open(servers=proxy.servers, timeout_seconds=TIMEOUT_SECONDS)
            session = soak_memory.session("lost-reply")
            said = soak_memory.turns(session, REPLIES_LOST_MAX)
            acknowledged = []
            for number, message in enumerate(said):
                await attempt("history", store.history(session))
                proxy.lose_reply(number)
                acknowledged += await say_meanwhile(store, [message])
                proxy.lose_none()
            read = await recovered(soak_memory, store, session, 1)
        expect_kept("A user whose connection broke for a moment", soak_memory.kept(acknowledged), read)
        twice = next((item for item in read if read.count(item) > 1), None)
        if twice is not None and soak_memory.contract.duplicates is Duplicates.EXACTLY_ONCE:
            broken(
                f"A user whose connection broke for a moment reads {shown(twice)} more than once (duplicated)",
                "the client library sent it again after its reply was lost: turn that off, or make append idempotent",
            )


async def _talk_meanwhile(memory: Memory, who: str, trouble: AbstractAsyncContextManager[None]) -> None:
    """Talk before and during the trouble: what was acknowledged is there afterwards."""
    session = memory.session("meanwhile")
    store = await memory.open(timeout_seconds=TIMEOUT_SECONDS)
    said = memory.turns(session, 3)
    await memory.say(store, said)
    async with trouble:
        acknowledged, _ = await asyncio.gather(
            say_meanwhile(store, memory.turns(session, 4, first=4)), read_meanwhile(memory, store, session, said)
        )
    read = await recovered(memory, store, session, 1)
    expect_kept(who, memory.kept([*said, *acknowledged]), read)
