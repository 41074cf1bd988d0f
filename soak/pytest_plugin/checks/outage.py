"""What happens to users while a server is away, and when it is back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from soak.checker.message import Message
from soak.pytest_plugin.comparison import broken, shown
from soak.pytest_plugin.memory import Memory, described
from soak.pytest_plugin.server import SoakServer
from soak.stores.protocol import MemoryStore

PATIENCE_SECONDS = 8.0
"""When the caller gives a call up, as every web server does at some time."""
RECOVERY_SECONDS_MAX = 20.0
TIMEOUT_SECONDS = 1.0
"""What the store is told to wait for a server that does not answer."""
_RETRY_SECONDS = 0.1


class GaveUpError(Exception):
    """The call neither returned nor raised, and its caller went away."""


def breakable(memory: Memory) -> list[SoakServer]:
    """Return the servers in the order in which they may be stopped; skips the test where that must not be."""
    servers = list(memory.servers.values())
    if not servers:
        pytest.skip("the store declares no server in `needs`, so there is none to break")
    protected = next((server for server in servers if server.protected is not None), None)
    if protected is not None:
        pytest.skip(f"the {protected.kind} server must not be broken: {protected.protected}")
    return servers


@contextlib.asynccontextmanager
async def during(
    servers: Sequence[SoakServer],
    inject: Callable[[SoakServer], Awaitable[None]],
    heal: Callable[[SoakServer], Awaitable[None]],
) -> AsyncIterator[None]:
    """Break all servers, and mend them in the order in which they need each other."""
    for server in servers:
        await inject(server)
    try:
        yield
    finally:
        for server in servers:
            await heal(server)


async def attempt(what: str, work: Awaitable[object]) -> object:
    """Return what a call answered or the exception it raised; one that does neither is given up."""
    limit = asyncio.timeout(PATIENCE_SECONDS)
    try:
        async with limit:
            return await work
    except Exception as error:  # noqa: BLE001  that is what is looked at
        return GaveUpError(what) if limit.expired() else error


async def say_meanwhile(store: MemoryStore, messages: Sequence[Message]) -> list[Message]:
    """Append all at once while something is wrong; returns those that the store acknowledged."""
    answers = await asyncio.gather(*(attempt("append", store.append(one.session, one)) for one in messages))
    return [one for one, answer in zip(messages, answers, strict=True) if not isinstance(answer, Exception)]


async def read_meanwhile(memory: Memory, store: MemoryStore, session: str, said: Sequence[Message]) -> None:
    """Read while something is wrong: an error is an honest answer, "nothing remembered" is not."""
    reads = (store.history(session), store.history(session, len(said)))
    for answer in await asyncio.gather(*(attempt("history", read) for read in reads)):
        if isinstance(answer, Exception) or not isinstance(answer, Sequence):
            continue
        missing = [message for message in memory.kept(said) if message not in answer]
        if missing:
            broken(
                "A user comes back while the server is away and is met like a stranger: history answered with "
                f"{len(answer)} messages instead of raising, without {shown(missing[0])} (lost, then healed)"
            )


async def recovered(memory: Memory, store: MemoryStore, session: str, first: int) -> list[object]:  # noqa: RET503  ends in NoReturn
    """Talk until the store is well again, and return what it then remembers."""
    deadline = asyncio.get_running_loop().time() + RECOVERY_SECONDS_MAX
    message = memory.message(session, first, "are you there?", writer=9)
    error: object = None
    while asyncio.get_running_loop().time() < deadline:
        error = await attempt("append", store.append(session, message))
        if not isinstance(error, Exception):
            read = await attempt("history", store.history(session))
            if isinstance(read, Sequence) and (memory.staleness_seconds == 0 or message in read):
                return list(read)
            error = read
        # The answer to that one is unknown, so the next try is another message.
        message = memory.message(session, message.seq + 1, "are you there?", writer=9)
        await asyncio.sleep(_RETRY_SECONDS)
    how = described(error) if isinstance(error, Exception) else "reads lag behind"
    broken(f"Users still meet errors {RECOVERY_SECONDS_MAX:g} s after the server came back: {how}")


def expect_kept(who: str, acknowledged: Sequence[Message], read: Sequence[object]) -> None:
    """Fail unless everything that was acknowledged is remembered, once."""
    missing = [message for message in acknowledged if message not in read]
    if missing:
        broken(
            f"{who} was told that {shown(missing[0])} is remembered, and it is not (lost)",
            f"{len(missing)} of {len(acknowledged)} acknowledged messages are gone; append must raise what goes wrong",
        )
