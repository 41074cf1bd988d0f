"""The proxy in front of a server: it passes everything on, except where told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
import redis
import redis.asyncio
import uvloop
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from soak.servers.local import LocalServers
from soak.servers.ports import free_port, is_free
from soak.servers.proxy import Direction, Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

PATIENCE_SECONDS = 30.0
A_WHILE_SECONDS = 0.3


@contextlib.asynccontextmanager
async def proxied(folder: Path, kind: str) -> AsyncIterator[tuple[LocalServers, Proxy]]:
    testbed = LocalServers(folder, proxied=True)
    await testbed.start([kind])
    proxy = testbed.nodes[kind].proxy
    assert proxy
    try:
        yield testbed, proxy
    finally:
        before = len(asyncio.all_tasks())
        await testbed.stop()
        assert proxy.connections == 0
        assert is_free(proxy.port)
        assert len(asyncio.all_tasks()) < before  # the supervisor's and nothing more than before


def client_of(url: str) -> Any:
    return redis.asyncio.Redis.from_url(
        url, socket_timeout=PATIENCE_SECONDS, decode_responses=True, retry=Retry(NoBackoff(), 0)
    )


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


async def still_waits(task: asyncio.Task[object]) -> bool:
    done, _ = await asyncio.wait([task], timeout=A_WHILE_SECONDS)
    return not done


async def test_clients_are_given_the_proxys_address_and_keep_it(tmp_path: Path) -> None:
    testbed = LocalServers(tmp_path, proxied=True)
    urls = await testbed.start(["redis", "postgres", "ledger"])
    for kind in ("redis", "postgres"):
        server = testbed.nodes[kind]
        assert urls[kind] == server.url
        assert f":{server.public_port}/" in server.url
        assert server.public_port != server.port
    assert testbed.nodes["ledger"].proxy is None
    assert str(testbed.nodes["ledger"].port) in urls["ledger"]
    await testbed.stop()
    testbed = LocalServers(tmp_path, proxied=True)
    assert await testbed.start(["redis", "postgres", "ledger"]) == urls
    await testbed.stop()


async def test_long_messages_pass_unchanged_in_both_directions(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, _), client_of(testbed.nodes["redis"].url) as client:
        texts = [chr(65 + number % 26) * 700_001 for number in range(8)]
        await asyncio.gather(*(client.rpush(f"long-{number}", text) for number, text in enumerate(texts)))
        read = await asyncio.gather(*(client.lrange(f"long-{number}", 0, -1) for number in range(8)))
        assert [[text] for text in texts] == read


async def test_a_restarted_server_is_found_behind_the_same_address(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.set("kept", "yes")
        await testbed.nodes["redis"].kill()
        await until(lambda: proxy.connections == 0)
        with pytest.raises(redis.ConnectionError):
            await client.get("kept")
        await testbed.nodes["redis"].start_again()
        assert await client.get("kept") == "yes"


async def test_refused_clients_cannot_connect_while_open_connections_go_on(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.set("kept", "yes")
        await proxy.refuse()
        await proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await client.get("kept") == "yes"
        await proxy.heal()
        await proxy.accept()
        async with client_of(testbed.nodes["redis"].url) as another:
            assert await another.get("kept") == "yes"


async def test_reset_connections_end_with_a_reset_and_not_with_a_goodbye(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (_, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        await until(lambda: proxy.connections == 1)
        proxy.reset_connections()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        await until(lambda: proxy.connections == 0)


async def test_a_request_that_is_held_arrives_after_the_release_even_if_its_client_is_gone(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.ping()
        proxy.hold(Direction.TO_SERVER)
        writing = asyncio.create_task(client.set("late", "yes"))
        assert await still_waits(writing)
        writing.cancel()
        await client.aclose()
        async with client_of(direct(testbed)) as around:
            assert await around.get("late") is None
            proxy.release()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while await around.get("late") != "yes":
                assert time.monotonic() < deadline, "the held write was lost"
                await asyncio.sleep(0.02)


async def test_a_reply_that_is_held_belongs_to_a_write_that_was_applied(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.ping()
        proxy.hold(Direction.TO_CLIENT)
        writing = asyncio.create_task(client.set("held", "yes"))
        assert await still_waits(writing)
        async with client_of(direct(testbed)) as around:
            assert await around.get("held") == "yes"
        proxy.release()
        assert await writing is True


async def test_a_held_flood_is_kept_by_its_sender_and_not_by_us(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.ping()
        proxy.hold(Direction.TO_SERVER)
        flood = b"x" * 64 * 2**20
        writing = asyncio.create_task(client.set("flood", flood))
        assert await still_waits(writing)
        link = next(iter(proxy._links))
        assert link.client._transport
        assert link.server._transport
        assert link.server._late_bytes + link.server._transport.get_write_buffer_size() == 0
        proxy.release()
        assert await writing is True


async def test_a_delay_holds_every_byte_back_in_order_and_bounded(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.ping()
        proxy.delay(0.15)
        started = time.monotonic()
        await client.ping()
        assert time.monotonic() - started >= 0.3
        text = "0123456789" * 300_000
        assert await client.set("long", text)
        proxy.delay(0.0)
        assert await client.get("long") == text


async def test_what_is_late_is_not_overtaken_by_what_comes_after_the_delay(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"AUTH {testbed.nodes['redis'].pinned.password}\r\n".encode())
        assert await reader.readline() == b"+OK\r\n"
        proxy.delay(0.3)
        writer.write(b"RPUSH order first\r\n")
        await until(lambda: any(link.server._late for link in proxy._links))
        proxy.delay(0.0)
        writer.write(b"RPUSH order second\r\n")
        assert [await reader.readline() for _ in range(2)] == [b":1\r\n", b":2\r\n"]
        writer.close()
        async with client_of(direct(testbed)) as around:
            assert await around.lrange("order", 0, -1) == ["first", "second"]


async def test_a_lost_reply_belongs_to_a_write_that_was_applied_once(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        proxy.drop_replies(1 / 2)
        outcomes = []
        for number in range(6):
            try:
                await client.rpush("session", number)
                outcomes.append("ok")
            except redis.ConnectionError:
                outcomes.append("unknown")
            # Reads, logins and the like always get their answer.
            assert await client.llen("session") == number + 1
        assert outcomes == ["ok", "unknown"] * 3
        assert proxy.replies_dropped == 3
        await proxy.heal()
        assert await client.rpush("session", "healed") == 7


async def test_a_client_that_retries_after_a_lost_reply_stores_twice(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy):
        url = testbed.nodes["redis"].url
        async with redis.asyncio.Redis.from_url(url, retry=Retry(NoBackoff(), 3)) as retrying:
            proxy.drop_replies(1 / 3)
            for number in range(6):
                await retrying.rpush("session", number)
        async with client_of(direct(testbed)) as around:
            assert await around.lrange("session", 0, -1) == ["0", "1", "2", "2", "3", "4", "4", "5"]


async def test_a_transaction_whose_reply_is_lost_was_applied_as_a_whole(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
        await client.ping()
        proxy.drop_replies(1)
        with pytest.raises(redis.ConnectionError):
            async with client.pipeline(transaction=True) as pipeline:
                await pipeline.rpush("session", "x" * 300_000).rpush("session", "y" * 300_000).execute()
        async with client_of(direct(testbed)) as around:
            assert await around.llen("session") == 2


async def test_a_lost_reply_of_postgres_belongs_to_a_row_that_was_committed(tmp_path: Path) -> None:
    async with proxied(tmp_path, "postgres") as (testbed, proxy):
        url = testbed.nodes["postgres"].url
        connection = await asyncpg.connect(url)
        await connection.execute("create table told (value text)")
        proxy.drop_replies(1)
        # Preparing, reading and writing inside a transaction promise nothing and are answered.
        assert await connection.fetchval("select count(*) from told where value <> $1", "x" * 10) == 0
        # A long answer that looks like an acknowledgement is none.
        alike = b"C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05I" * 30_000
        assert await connection.fetchval("select $1::bytea", alike) == alike
        assert proxy.replies_dropped == 0
        with pytest.raises((asyncpg.ConnectionDoesNotExistError, ConnectionError)):
            await connection.execute("insert into told values ($1)", "x" * 300_000)
        connection.terminate()
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("select count(*) from told") == 1
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError)):
            async with connection.transaction():
                assert await connection.execute("insert into told values ('second')") == "INSERT 0 1"
        connection.terminate()
        proxy.drop_replies(0)
        connection = await asyncpg.connect(url, ssl="prefer")
        assert await connection.fetchval("select count(*) from told") == 2
        assert proxy.replies_dropped == 2
        # Asking for encryption first does not confuse it.
        proxy.drop_replies(1)
        with pytest.raises((asyncpg.ConnectionDoesNotExistError, ConnectionError)):
            await connection.execute("insert into told values ('third')")
        connection.terminate()
        assert proxy.replies_dropped == 3


async def test_a_port_taken_by_another_is_one_clear_line(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (_, proxy):
        port = proxy.port
    listener = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", port)
    with pytest.raises(Exception, match=f"cannot listen on 127.0.0.1:{port}") as caught:
        await LocalServers(tmp_path, proxied=True).start(["redis"])
    listener.close()
    assert "\n" not in str(caught.value)


def test_it_works_on_another_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with proxied(tmp_path, "redis") as (testbed, proxy), client_of(testbed.nodes["redis"].url) as client:
            assert await client.set("kept", "yes")
            # Some loops read before they can be asked not to: nothing of a first request may be lost.
            for _ in range(50):
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                writer.write(b"PING\r\n")
                assert (await reader.readline()).startswith(b"-NOAUTH")
                writer.close()
            await proxy.refuse()
            proxy.reset_connections()
            with pytest.raises(redis.ConnectionError):
                await client.get("kept")
            await proxy.heal()
            assert await client.get("kept") == "yes"
            proxy.drop_replies(1)
            with pytest.raises(redis.ConnectionError):
                await client.set("kept", "no")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_closing_it_cuts_what_is_connected_and_what_is_connecting(tmp_path: Path) -> None:
    async with proxied(tmp_path, "redis") as (testbed, _):
        proxy = Proxy(free_port(), testbed.nodes["redis"].port, NoExchange)
        await proxy.start()
        connected = await asyncio.open_connection("127.0.0.1", proxy.port)
        await until(lambda: proxy.connections == 1 and not proxy._connecting)
        await testbed.nodes["redis"].pause()
        connecting = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(5)]
        await proxy.close()
        assert proxy.connections == 0
        for reader, writer in (connected, *connecting):
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()


async def test_without_a_server_behind_it_clients_are_reset(tmp_path: Path) -> None:
    proxy = Proxy(free_port(), free_port(), NoExchange)
    await proxy.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    await proxy.close()


class NoExchange:
    def requested(self, data: bytes) -> None: ...

    def acknowledges(self, data: bytes) -> bool:
        return not isinstance(data, bytes)


def direct(testbed: LocalServers) -> str:
    server = testbed.nodes["redis"]
    return server.url.replace(f":{server.public_port}/", f":{server.port}/")
