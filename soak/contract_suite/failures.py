"""A server that fails: errors are raised and never swallowed, and what was acknowledged survives as promised."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from operator import methodcaller

from soak.checker.contract import Duplicates
from soak.checker.message import Message
from soak.contract_suite.check import check
from soak.contract_suite.comparison import broken, not_tried, shown
from soak.contract_suite.lost_reply import LostReplies
from soak.contract_suite.memory import BreakableServer, Memory, described
from soak.hosts import is_group
from soak.servers.kinds import POSTGRES_REPLICA
from soak.stores.protocol import MemoryStore

PATIENCE_SECONDS = 8.0
"""When the caller gives a call up, as every web server does at some time."""
RECOVERY_SECONDS_MAX = 20.0
TIMEOUT_SECONDS = 1.0
"""The timeout that the store is opened with."""
_RETRY_SECONDS = 0.1
REPLIES_LOST_MAX = 4
"""An append may take several exchanges with the server; the reply of each is lost in turn."""
LOSS_SECONDS_MAX = 5.0
"""The longest window of tolerated loss that the suite waits out."""
MARGIN_SECONDS = 0.3
TALKING_SECONDS = 0.2
SWALLOWING_SECONDS = 3 * TIMEOUT_SECONDS
"""So long a store may take to raise an error once its server has died; it is then taken to raise none."""


@check()
async def a_server_that_is_away_is_an_error(memory: Memory) -> None:
    servers = breakable(memory)
    session, wiped = memory.session("away"), memory.session("wiped")
    store = await memory.open(timeout_seconds=TIMEOUT_SECONDS)
    said = memory.turns(session, 3)
    await memory.say(store, [*said, *memory.turns(wiped, 2)])
    async with during(servers, methodcaller("stop"), methodcaller("start")):
        acknowledged, _ = await asyncio.gather(
            say_meanwhile(store, memory.turns(session, 4, first=4)),
            read_meanwhile(memory, store, session, said),
        )
        forgot = await attempt("forget", store.forget(wiped))
    read = await recovered(memory, store, session, 1)
    expect_kept("A user who talks while the server is away", memory.kept([*said, *acknowledged]), read)
    if not isinstance(forgot, Exception) and await memory.recall(store, wiped):
        broken("A user who asked to be forgotten while the server was away was told yes and is still known")


@check()
async def a_server_that_is_silent_is_an_error(memory: Memory) -> None:
    trouble = during(_to_be_paused(memory), methodcaller("pause"), methodcaller("resume"))
    await _talk_meanwhile(memory, "A user who talks while the server hangs", trouble)


@check()
async def a_server_that_is_silent_is_given_up(memory: Memory) -> None:
    servers = _to_be_paused(memory)
    session = memory.session("waiting")
    store = await memory.open(timeout_seconds=TIMEOUT_SECONDS)
    first, second = memory.turns(session, 2)
    await memory.say(store, [first])
    async with during(servers, methodcaller("pause"), methodcaller("resume")):
        answers = await asyncio.gather(
            attempt("append", store.append(session, second)), attempt("history", store.history(session))
        )
    waited = next((answer for answer in answers if isinstance(answer, GaveUpError)), None)
    if waited is not None:
        broken(
            f"A user waits in vain: {waited} neither returned nor raised within {PATIENCE_SECONDS:g} s, "
            f"with a timeout of {TIMEOUT_SECONDS:g} s",
            "set a timeout on every call of the client library; the context has one in timeout_seconds",
        )


@check()
async def a_write_that_is_refused_is_an_error(memory: Memory) -> None:
    servers = [server for server in breakable(memory) if server.kind != POSTGRES_REPLICA.name]
    _expect_no_group(memory, "one of its nodes that refuses writes is one that clients leave")
    trouble = during(servers, methodcaller("refuse_writes"), methodcaller("accept_writes"))
    await _talk_meanwhile(memory, "A user who talks while the server is full", trouble)


@check()
async def a_reply_that_is_lost_stores_nothing_twice(memory: Memory) -> None:
    _expect_no_group(memory, "clients are told the addresses of its nodes, and go past what stands before it")
    async with LostReplies(memory.context().servers) as proxy:
        store = await memory.open(servers=proxy.servers, timeout_seconds=TIMEOUT_SECONDS)
        session = memory.session("lost-reply")
        said = memory.turns(session, REPLIES_LOST_MAX)
        acknowledged = []
        for number, message in enumerate(said):
            await attempt("history", store.history(session))
            proxy.lose_reply(number)
            acknowledged += await say_meanwhile(store, [message])
            proxy.lose_none()
        read = await recovered(memory, store, session, 1)
    expect_kept("A user whose connection broke for a moment", memory.kept(acknowledged), read)
    twice = next((item for item in read if read.count(item) > 1), None)
    if twice is not None and memory.contract.duplicates is Duplicates.EXACTLY_ONCE:
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


@check()
async def a_clean_restart_loses_nothing(memory: Memory) -> None:
    servers = breakable(memory)
    if memory.contract.crash_loss_seconds is None:
        not_tried("the contract promises nothing after a restart: a cache")
    session = memory.session("restart")
    store = await memory.open()
    said = memory.turns(session, 10)
    await memory.say(store, said)
    async with during(servers, methodcaller("stop"), methodcaller("start")):
        pass
    read = await recovered(memory, store, session, 1)
    expect_kept("A user who comes back after a restart of the server", memory.kept(said), read)


@check()
async def a_crash_loses_no_more_than_promised(memory: Memory) -> None:
    servers = breakable(memory)
    loss = memory.contract.crash_loss_seconds
    if loss is None:
        not_tried("the contract promises nothing after a crash: a cache")
    if loss > LOSS_SECONDS_MAX:
        not_tried(f"the contract tolerates the loss of {loss:g} s, which is longer than the suite waits")
    session = memory.session("crash")
    store = await memory.open(timeout_seconds=TIMEOUT_SECONDS)
    old = memory.turns(session, 10)
    await memory.say(store, old)
    await asyncio.sleep(loss + MARGIN_SECONDS if loss else 0)
    young: list[Message] = []
    talking = asyncio.ensure_future(_talk_until_error(memory, store, session, young))
    await asyncio.sleep(TALKING_SECONDS)
    async with during(servers, methodcaller("kill"), methodcaller("start")):
        swallowed = await _acknowledged_without_a_server(talking, young)
    read = await recovered(memory, store, session, 1)
    _expect_no_error_swallowed(swallowed, read)
    who = "A user who comes back after a crash of the server"
    if memory.contract.retained_messages is None:
        expect_kept(who, old, read)
        _expect_tail(who, young if loss else [], read)
    if not loss:
        expect_kept(who, memory.kept([*old, *young]), read)


async def _talk_until_error(memory: Memory, store: MemoryStore, session: str, acknowledged: list[Message]) -> None:
    """Say one thing after the other until the server is gone."""
    with contextlib.suppress(Exception):
        for message in memory.turns(session, 100_000, writer=1):
            await store.append(session, message)
            acknowledged.append(message)
            await asyncio.sleep(0.001)


async def _acknowledged_without_a_server(talking: asyncio.Future[None], acknowledged: list[Message]) -> list[Message]:
    """Return what the store acknowledged after its server had died; one that raises no error is stopped soon."""
    # The first may have been sent before the server died.
    before = len(acknowledged) + 1
    await asyncio.wait([talking], timeout=SWALLOWING_SECONDS)
    if not talking.done():
        talking.cancel()
        await asyncio.wait([talking])
    swallowed = acknowledged[before:]
    del acknowledged[before:]
    return swallowed


def _expect_no_error_swallowed(swallowed: list[Message], read: list[object]) -> None:
    missing = [message for message in swallowed if message not in read]
    if missing:
        broken(
            f"A user who talks while the server is gone was told that {shown(missing[0])} is remembered, and it is "
            "not: the store swallows errors (lost)",
            f"{len(missing)} messages were acknowledged without a server; append must raise what goes wrong",
        )


def _expect_tail(who: str, young: list[Message], read: list[object]) -> None:
    """Fail on a hole: only the end of what was said may be missing."""
    lost = next((message for message in young if message not in read), None)
    later = [message for message in young if lost is not None and message.seq > lost.seq and message in read]
    if lost is not None and later:
        broken(f"{who} misses {shown(lost)} although {shown(later[0])}, said later, is there: a hole (lost)")


class GaveUpError(Exception):
    """The call neither returned nor raised, and its caller went away."""


def breakable(memory: Memory) -> list[BreakableServer]:
    """Return the servers in the order in which they may be stopped; skips the test where that must not be."""
    servers = list(memory.servers.values())
    if not servers:
        not_tried("the store declares no server in `needs`, so there is none to break")
    protected = next((server for server in servers if server.protected is not None), None)
    if protected is not None:
        not_tried(f"the {protected.kind} server must not be broken: {protected.protected}")
    return servers


def _to_be_paused(memory: Memory) -> list[BreakableServer]:
    servers = breakable(memory)
    _expect_no_group(memory, "its nodes do not fall silent all at once")
    return servers


def _expect_no_group(memory: Memory, why: str) -> None:
    """Skip the test where one of the servers is a group of nodes."""
    kind = next((server.kind for server in memory.servers.values() if is_group(server.url)), None)
    if kind is not None:
        not_tried(f"the {kind} server is a group of nodes: {why}")


@contextlib.asynccontextmanager
async def during(
    servers: Sequence[BreakableServer],
    inject: Callable[[BreakableServer], Awaitable[None]],
    heal: Callable[[BreakableServer], Awaitable[None]],
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
