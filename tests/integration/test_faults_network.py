"""What happens between clients and server, which itself is well."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import asyncpg
import pytest
import redis

from soak.faults import ALL
from soak.faults.connection_exhaustion import CONNECTIONS_MAX
from soak.faults.connection_refused import ConnectionRefused
from soak.faults.connection_reset import ConnectionReset
from soak.faults.dropped_reply import DroppedReply
from soak.faults.latency import Latency
from soak.faults.partition import Partition
from soak.faults.slow_link import SlowLink
from soak.servers.ports import HOST
from tests.support.servers.breaking import client_of, running, sql

if TYPE_CHECKING:
    from pathlib import Path

A_WHILE_SECONDS = 0.4


async def test_nobody_reaches_a_server_in_an_outage(tmp_path: Path) -> None:
    outage = ALL["connection_refused"]
    async with running(tmp_path, "redis", "postgres", proxied=True) as servers:
        async with client_of(servers.nodes["redis"].url) as client:
            await client.set("kept", "yes")
            await outage.inject(servers, "redis")
            await outage.inject(servers, "redis")
            with pytest.raises(redis.ConnectionError):
                await client.get("kept")
            assert await sql(servers.nodes["postgres"].url, "select 1") == 1
            # The server itself is well, and supervision does not depend on the network in front of it.
            assert await servers.telemetry("redis")
            await outage.heal(servers, "redis")
            await outage.heal(servers, "redis")
            assert await client.get("kept") == "yes"
        await outage.inject(servers, "postgres")
        with pytest.raises(ConnectionRefusedError):
            await sql(servers.nodes["postgres"].url, "select 1")
        await outage.heal(servers, "postgres")
        assert await sql(servers.nodes["postgres"].url, "select 1") == 1


async def test_writes_whose_reply_is_dropped_are_there(tmp_path: Path) -> None:
    dropped = DroppedReply(share=1 / 3)
    async with running(tmp_path, "redis", "postgres", proxied=True) as servers:
        await dropped.inject(servers, "redis")
        unknown = 0
        async with client_of(servers.nodes["redis"].url) as client:
            for number in range(9):
                try:
                    await client.rpush("session", number)
                except redis.ConnectionError:
                    unknown += 1
            await dropped.heal(servers, "redis")
            for number in range(9, 12):
                await client.rpush("session", number)
            assert await client.lrange("session", 0, -1) == [str(number) for number in range(12)]
        assert unknown == 3
        url = servers.nodes["postgres"].url
        await sql(url, "create table told (value int)")
        await dropped.inject(servers, "postgres")
        unknown = 0
        for number in range(6):
            try:
                await sql(url, f"insert into told values ({number})")  # noqa: S608  a number
            except (asyncpg.PostgresConnectionError, ConnectionError):
                unknown += 1
        await dropped.heal(servers, "postgres")
        assert await sql(url, "select array_agg(value order by value) from told") == list(range(6))
        assert unknown == 2


async def test_in_a_partition_nobody_is_told_anything_and_what_was_sent_arrives_afterwards(tmp_path: Path) -> None:
    partition = ALL["partition"]
    async with running(tmp_path, "redis", "postgres", proxied=True) as servers:
        server = servers.nodes["redis"]
        async with client_of(server.url) as client:
            await client.rpush("session", "one")
            await partition.inject(servers, "redis")
            await partition.inject(servers, "redis")
            sent = asyncio.create_task(client.rpush("session", "two"))
            connecting = asyncio.create_task(asyncio.open_connection(HOST, server.public_port))
            done, _ = await asyncio.wait([sent, connecting], timeout=A_WHILE_SECONDS)
            assert not done
            assert await sql(servers.nodes["postgres"].url, "select 1") == 1
            assert await servers.telemetry("redis"), "the server itself is well"
            await partition.heal(servers, "redis")
            await partition.heal(servers, "redis")
            assert await sent == 2
            _, writer = await connecting
            writer.close()
            assert await client.lrange("session", 0, -1) == ["one", "two"]


async def test_a_testbed_can_be_stopped_in_the_middle_of_a_partition(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers:
        await ALL["partition"].inject(servers, "redis")
    async with running(tmp_path, "redis", proxied=True) as servers, client_of(servers.nodes["redis"].url) as client:
        assert await client.ping()


async def test_connections_that_are_reset_can_be_made_anew_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers:
        server = servers.nodes["redis"]
        reader, writer = await asyncio.open_connection(HOST, server.public_port)
        writer.write(b"PING\r\n")
        assert await reader.readline()
        await ALL["connection_reset"].inject(servers, "redis")
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        writer.close()
        async with client_of(server.url) as client:
            assert await client.ping()
        await ALL["connection_reset"].heal(servers, "redis")


async def test_with_latency_every_answer_takes_its_time(tmp_path: Path) -> None:
    latency = Latency(delay=0.15)
    async with running(tmp_path, "redis", proxied=True) as servers, client_of(servers.nodes["redis"].url) as client:
        await client.ping()
        await latency.inject(servers, "redis")
        began = time.monotonic()
        await client.rpush("session", "one")
        assert time.monotonic() - began >= 0.3
        await latency.heal(servers, "redis")
        proxy = servers.nodes["redis"].proxy
        assert proxy
        assert await client.lrange("session", 0, -1) == ["one"]


async def test_a_partition_in_one_direction_lets_the_other_through(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers, client_of(servers.nodes["redis"].url) as client:
        server = servers.nodes["redis"]
        await client.ping()
        replies = Partition(direction="to_client")
        await replies.inject(servers, "redis")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(A_WHILE_SECONDS):
                await client.rpush("session", "applied, and nobody told")
        await replies.heal(servers, "redis")
        async with client_of(server.url) as other:
            assert await other.llen("session") == 1
            requests = Partition(direction="to_server")
            await requests.inject(servers, "redis")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(A_WHILE_SECONDS):
                    await other.rpush("session", "arrives later, if at all")
            assert await servers.telemetry("redis"), "the server itself is well"
        await requests.heal(servers, "redis")


async def test_a_partition_can_reset_what_is_open_and_a_refusal_can_keep_it(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers, client_of(servers.nodes["redis"].url) as client:
        await client.ping()
        keeping = ConnectionRefused(connections="keep")
        await keeping.inject(servers, "redis")
        assert await client.ping(), "who is connected stays so"
        await keeping.heal(servers, "redis")
        resetting = Partition(connections="reset")
        proxy = servers.nodes["redis"].proxy
        assert proxy
        assert proxy.connections == 1
        await resetting.inject(servers, "redis")
        async with asyncio.timeout(5):
            while proxy.connections:
                await asyncio.sleep(0)
        await resetting.heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as other:
            assert await other.ping()


async def test_a_share_of_the_connections_is_reset(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers:
        proxy = servers.nodes["redis"].proxy
        assert proxy
        opened = [await asyncio.open_connection(HOST, proxy.port) for _ in range(4)]
        async with asyncio.timeout(5):
            while proxy.connections < 4:
                await asyncio.sleep(0)
            await ConnectionReset(share="50%").inject(servers, "redis")
            while proxy.connections > 2:
                await asyncio.sleep(0)
        for _, writer in opened:
            writer.close()


async def test_jitter_delays_without_changing_the_order(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", proxied=True) as servers, client_of(servers.nodes["redis"].url) as client:
        await client.ping()
        await Latency(delay="1ms", jitter="20ms").inject(servers, "redis")
        async with client.pipeline(transaction=False) as pipeline:
            for number in range(50):
                pipeline.rpush("session", number)
            await pipeline.execute()
        for number in range(50, 60):
            await client.rpush("session", number)
        assert await client.lrange("session", 0, -1) == [str(number) for number in range(60)]


async def test_a_slow_link_lets_so_much_through_in_a_second(tmp_path: Path) -> None:
    slow = SlowLink(rate=100_000)
    async with running(tmp_path, "redis", proxied=True) as servers, client_of(servers.nodes["redis"].url) as client:
        await client.set("long", "x" * 50_000)
        await slow.inject(servers, "redis")
        began = time.monotonic()
        assert len(await client.get("long")) == 50_000
        assert time.monotonic() - began >= 0.5
        # Healed in the middle of an answer that would take ten seconds more: the rest comes at once.
        await client.set("longer", "x" * 1_000)
        slow = SlowLink(rate="5kB/s")
        await slow.inject(servers, "redis")
        asking = asyncio.create_task(client.get("long"))
        done, _ = await asyncio.wait([asking], timeout=A_WHILE_SECONDS)
        assert not done
        await slow.heal(servers, "redis")
        await slow.heal(servers, "redis")
        async with asyncio.timeout(5):
            assert len(await asking) == 50_000


async def test_a_storm_of_connections_keeps_new_clients_of_redis_out_and_serves_the_old(tmp_path: Path) -> None:
    storm = ALL["connection_exhaustion"]
    async with running(tmp_path, "redis") as servers:
        server = servers.nodes["redis"]
        async with client_of(server.url) as client:
            await client.ping()
            limit = await client.config_get("maxclients")
            await storm.inject(servers, "redis")
            async with client_of(server.url) as late:
                with pytest.raises(redis.ConnectionError, match="max number of clients"):
                    await late.ping()
            assert await client.rpush("session", "one") == 1
            await storm.heal(servers, "redis")
            await storm.heal(servers, "redis")
            assert await client.config_get("maxclients") == limit
        async with client_of(server.url) as late:
            assert await late.lrange("session", 0, -1) == ["one"]


async def test_a_storm_of_connections_keeps_new_clients_of_postgres_out(tmp_path: Path) -> None:
    storm = ALL["connection_exhaustion"]
    async with running(tmp_path, "postgres", postgres_options={"max_connections": "20"}) as servers:
        url = servers.nodes["postgres"].url
        connection = await asyncpg.connect(url)
        await storm.inject(servers, "postgres")
        with pytest.raises(asyncpg.TooManyConnectionsError):
            await sql(url, "select 1")
        assert await connection.fetchval("select 1") == 1
        connection.terminate()
        await storm.heal(servers, "postgres")
        await storm.heal(servers, "postgres")
        assert await sql(url, "select 1") == 1
    options = {"max_connections": str(CONNECTIONS_MAX + 1)}
    async with running(tmp_path, "postgres", postgres_options=options) as servers:
        assert "more than the 512" in (storm.unavailable(servers, "postgres") or "")
