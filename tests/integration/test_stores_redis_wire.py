"""The pipelining connection: many callers on few connections, each gets its own reply or an honest error."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio
import uvloop

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.ports import free_port
from soak.stores.protocol import StoreContext
from soak.stores.redis_client import (
    CommandTimedOutError,
    ConnectionLostError,
    LoginRefusedError,
    NotSentError,
    ReplyError,
    parse_address,
)
from soak.stores.redis_pool import RedisPool
from soak.stores.registry import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def pool_to(url: str, timeout_seconds: float = 5.0, connections_max: int = 2) -> AsyncIterator[RedisPool]:
    pool = RedisPool(parse_address(url), connections_max=connections_max, timeout_seconds=timeout_seconds)
    try:
        yield pool
    finally:
        await pool.close()


@contextlib.asynccontextmanager
async def server_that(
    answers: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Listen as a server that behaves in a way no real one can be made to; stands in for a broken network."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            await answers(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def commands_per_client(url: str) -> int:
    client = redis.asyncio.Redis.from_url(url)
    try:
        return sum(1 for one in await client.client_list() if one["name"] == "soak")
    finally:
        await client.aclose()


@pytest.mark.parametrize("version", ["redis_url", "redis62_url"])
async def test_each_of_many_callers_gets_its_own_reply(version: str, request: pytest.FixtureRequest) -> None:
    async with pool_to(request.getfixturevalue(version)) as pool:
        await pool.connect()
        texts = [f"{n}" * (1 + n % 50) for n in range(5000)]
        replies = await asyncio.gather(*(_echo(pool, text) for text in texts))
        assert replies == [text.encode() for text in texts]


async def _echo(pool: RedisPool, text: str) -> Any:
    return await pool.execute("ECHO", text)


async def test_replies_larger_than_any_buffer_arrive_whole(redis_url: str) -> None:
    async with pool_to(redis_url) as pool:
        big = bytes(range(256)) * 40_000
        assert await asyncio.gather(*(_echo_bytes(pool, big + bytes([n])) for n in range(5))) == [
            big + bytes([n]) for n in range(5)
        ]
        # What looks like the beginning of a reply is none in the middle of one.
        sly = b"$2000000000\r\n*2000000000\r\n" * 10_000
        assert await asyncio.gather(*(_echo_bytes(pool, sly) for _ in range(20))) == [sly] * 20


async def _echo_bytes(pool: RedisPool, data: bytes) -> Any:
    return await pool.execute("ECHO", data)


def test_it_works_the_same_on_uvloop(redis_url: str) -> None:
    async def main() -> list[Any]:
        async with pool_to(redis_url) as pool:
            tasks = [asyncio.create_task(_echo(pool, str(n))) for n in range(1000)]
            await asyncio.sleep(0)
            for task in tasks[::3]:
                task.cancel()
            return list(await asyncio.gather(*tasks, return_exceptions=True))

    replies = uvloop.run(main())
    for n, reply in enumerate(replies):
        assert isinstance(reply, asyncio.CancelledError) if n % 3 == 0 else reply == str(n).encode()


async def test_callers_that_are_cancelled_do_not_shift_the_replies_of_others(redis_url: str) -> None:
    async with pool_to(redis_url, connections_max=1) as pool:
        await pool.connect()
        for turns in range(4):
            tasks = [asyncio.create_task(_echo(pool, str(n))) for n in range(200)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            replies = await asyncio.gather(*tasks, return_exceptions=True)
            assert replies[1::2] == [str(n).encode() for n in range(1, 200, 2)]
        assert await pool.execute("ECHO", "still in step") == b"still in step"


async def test_an_error_reply_reaches_its_caller_only(redis_url: str, namespace: str) -> None:
    async with pool_to(redis_url, connections_max=1) as pool:
        calls = [_echo(pool, "1"), _call(pool, "NOSUCH", "x"), _echo(pool, "2")]
        replies: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        assert replies[::2] == [b"1", b"2"]
        assert isinstance(replies[1], ReplyError)
        assert replies[1].code == "ERR"


async def _call(pool: RedisPool, *command: str) -> Any:
    return await pool.execute(*command)


async def test_many_callers_share_few_connections(redis_url: str) -> None:
    before = await commands_per_client(redis_url)
    async with pool_to(redis_url, connections_max=3) as pool:
        await asyncio.gather(*(_echo(pool, str(n)) for n in range(500)))
        await asyncio.sleep(0.05)
        assert await commands_per_client(redis_url) - before <= 3


async def test_a_slow_server_times_out_and_the_late_reply_is_thrown_away(redis_url: str, namespace: str) -> None:
    key = f"{namespace}:empty"
    async with pool_to(redis_url, timeout_seconds=0.2, connections_max=1) as pool:
        await pool.connect()
        blocked = asyncio.create_task(_call(pool, "BLPOP", key, "0.3"))
        await asyncio.sleep(0.12)
        # This one is sent behind the blocked one, and still has time when that one's has run out.
        behind = asyncio.create_task(_echo(pool, "behind"))
        with pytest.raises((CommandTimedOutError, ConnectionLostError)):
            await blocked
        outcome = (await asyncio.gather(behind, return_exceptions=True))[0]
        assert outcome == b"behind" or isinstance(outcome, CommandTimedOutError | ConnectionLostError)
        assert await pool.execute("ECHO", "next") == b"next"


async def test_a_reply_slower_than_others_does_not_drop_a_connection_that_answers() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PING\r\n")
        writer.write(b"+OK\r\n+PONG\r\n")
        while await reader.readuntil(b"\r\nx\r\n"):
            await asyncio.sleep(0.05)
            writer.write(b"+late\r\n")

    async with server_that(slowly) as url, pool_to(url, timeout_seconds=0.3, connections_max=1) as pool:
        await pool.connect()
        connection = pool._slots[0].connection
        replies = await asyncio.gather(*(_echo(pool, "x") for _ in range(10)), return_exceptions=True)
        assert replies[:4] == [b"late"] * 4
        assert isinstance(replies[9], CommandTimedOutError)
        await asyncio.sleep(0.3)
        assert await pool.execute("ECHO", "x") == b"late"
        assert pool._slots[0].connection is connection


async def test_a_connection_that_has_gone_silent_is_replaced(redis_url: str) -> None:
    connections = 0

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"PING\r\n")
        writer.write(b"+OK\r\n+PONG\r\n")
        await reader.read()

    async with server_that(mute) as url, pool_to(url, timeout_seconds=0.1, connections_max=1) as pool:
        await pool.connect()
        for _ in range(3):
            with pytest.raises(CommandTimedOutError):
                await pool.execute("ECHO", "x")
            await asyncio.sleep(0.01)
        assert connections == 3


async def test_a_server_that_never_answers_the_login_is_a_certain_failure() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server_that(mute) as url, pool_to(url, timeout_seconds=0.1) as pool:
        with pytest.raises(NotSentError):
            await pool.execute("ECHO", "x")


async def test_something_that_is_not_redis_is_dropped() -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with server_that(other) as url, pool_to(url, timeout_seconds=1.0) as pool:
        with pytest.raises(NotSentError):
            await pool.connect()


async def test_a_server_that_takes_nothing_fails_what_was_not_sent_for_certain() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PING\r\n")
        writer.write(b"+OK\r\n+PONG\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(60)

    async with server_that(deaf) as url, pool_to(url, timeout_seconds=2.0, connections_max=1) as pool:
        await pool.connect()
        sent = asyncio.create_task(_echo_bytes(pool, b"x" * 50_000_000))
        # So much later that the first has given up, and the connection with it, before the time of the second is over.
        await asyncio.sleep(1.0)
        unsent = asyncio.create_task(_echo(pool, "y"))
        outcomes = await asyncio.gather(sent, unsent, return_exceptions=True)
        assert isinstance(outcomes[0], CommandTimedOutError | ConnectionLostError)
        assert isinstance(outcomes[1], NotSentError)


async def test_a_closed_pool_refuses_for_certain(redis_url: str) -> None:
    pool = RedisPool(parse_address(redis_url), connections_max=2, timeout_seconds=1.0)
    await pool.connect()
    await pool.close()
    with pytest.raises(NotSentError, match="closed"):
        await pool.execute("PING")


async def test_the_database_of_the_address_is_chosen(redis_url: str, namespace: str) -> None:
    other = redis_url.removesuffix("/0") + "/3"
    async with pool_to(redis_url) as zero, pool_to(other) as three:
        await three.execute("SET", namespace, "in three")
        assert await zero.execute("GET", namespace) is None
        assert await three.execute("GET", namespace) == b"in three"
        await three.execute("DEL", namespace)


async def test_a_named_user_logs_in_with_its_own_password(redis_url: str, namespace: str) -> None:
    client: Any = redis.asyncio.Redis.from_url(redis_url)
    address = redis_url.rpartition("@")[2]
    try:
        await client.execute_command("ACL", "SETUSER", namespace, "on", ">p:ss/w@rd", "~*", "+@all")
        async with pool_to(f"redis://{namespace}:p%3Ass%2Fw%40rd@{address}") as pool:
            assert await pool.execute("ACL", "WHOAMI") == namespace.encode()
        async with pool_to(f"redis://{namespace}:wrong@{address}") as pool:
            with pytest.raises(LoginRefusedError):
                await pool.connect()
            with pytest.raises(NotSentError):
                await pool.execute("PING")
    finally:
        await client.execute_command("ACL", "DELUSER", namespace)
        await client.aclose()


@pytest.mark.parametrize("version", ["redis_url", "redis62_url"])
@pytest.mark.parametrize("login", [":secret-but-wrong@", ""])
async def test_a_wrong_or_missing_password_is_said_as_such_and_not_shown(
    version: str, login: str, namespace: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(version).rpartition("@")[2]
    context = StoreContext(servers={"redis": f"redis://{login}{address}"}, namespace=namespace)
    with pytest.raises(ServerUnreachableError, match="password") as caught:
        await open_store("redis-list", context)
    assert address.partition("/")[0] in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_server_that_is_not_there_is_named_without_its_password(namespace: str) -> None:
    port = free_port()
    context = StoreContext(servers={"redis": f"redis://:secret@127.0.0.1:{port}/0"}, namespace=namespace)
    with pytest.raises(ServerUnreachableError, match=f"127.0.0.1:{port}") as caught:
        await open_store("redis-list", context)
    assert "secret" not in str(caught.value)


async def test_an_address_that_is_none_is_a_usage_error(namespace: str) -> None:
    context = StoreContext(servers={"redis": "http://:secret@127.0.0.1/0"}, namespace=namespace)
    with pytest.raises(UsageError, match="redis://") as caught:
        await open_store("redis-list", context)
    assert "secret" not in str(caught.value)
