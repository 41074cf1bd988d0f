"""What happens to the server itself: each fault does what it says, and is healed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from soak.errors import ServerUnreachableError
from soak.faults import ALL
from soak.faults.eviction import Eviction
from tests.support.servers.breaking import PATIENCE_SECONDS, client_of, running, sql

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.local import LocalServers


async def put(servers: LocalServers, target: str) -> None:
    if target == "redis":
        async with client_of(servers.nodes[target].url) as client:
            await client.set("kept", "yes")
    else:
        await sql(servers.nodes[target].url, "create table kept as select 'yes' as value")


async def has(servers: LocalServers, target: str) -> bool:
    if target == "redis":
        async with client_of(servers.nodes[target].url) as client:
            return bool(await client.exists("kept"))
    return bool(await sql(servers.nodes[target].url, "select to_regclass('kept') is not null"))


@pytest.mark.parametrize("target", ["redis", "postgres"])
@pytest.mark.parametrize("name", ["crash", "restart", "wiped_volume"])
async def test_a_server_that_is_down_comes_back_with_its_data_unless_they_were_wiped(
    tmp_path: Path, name: str, target: str
) -> None:
    fault = ALL[name]
    async with running(tmp_path, target) as servers:
        await put(servers, target)
        await fault.inject(servers, target)
        with pytest.raises(ServerUnreachableError):
            await servers.telemetry(target)
        await fault.heal(servers, target)
        assert await has(servers, target) is (name != "wiped_volume")
        pid = servers.nodes[target].pid
        await fault.heal(servers, target)
        assert servers.nodes[target].pid == pid


async def test_a_crash_loses_what_was_in_no_file_and_a_clean_restart_does_not(tmp_path: Path) -> None:
    options = {"appendonly": "no", "save": "900 1"}
    async with running(tmp_path, "redis", redis_options=options) as servers:
        await put(servers, "redis")
        await ALL["restart"].inject(servers, "redis")
        await ALL["restart"].heal(servers, "redis")
        assert await has(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            await client.set("newer", "yes")
        await ALL["crash"].inject(servers, "redis")
        await ALL["crash"].heal(servers, "redis")
        assert await has(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            assert await client.exists("newer") == 0


@pytest.mark.parametrize("target", ["redis", "postgres"])
async def test_a_paused_server_answers_when_it_goes_on(tmp_path: Path, target: str) -> None:
    async with running(tmp_path, target) as servers:
        await put(servers, target)
        await ALL["pause"].inject(servers, target)
        asking = asyncio.create_task(has(servers, target))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        assert not done
        await ALL["pause"].heal(servers, target)
        assert await asking


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_eviction_throws_acknowledged_keys_away_while_writes_go_on(tmp_path: Path, flavour: str) -> None:
    eviction = Eviction()
    options = {"maxmemory": "512mb", "maxmemory-policy": "volatile-ttl"}
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=options) as servers:
        server = servers.nodes["redis"]
        async with client_of(server.url) as client:
            for number in range(400):
                await client.rpush(f"session-{number}", "x" * 10_000)
            await eviction.inject(servers, "redis")
            await eviction.inject(servers, "redis")
            for number in range(20):
                assert await client.rpush(f"later-{number}", "x" * 10_000) == 1
            left = sum([await client.exists(f"session-{number}") for number in range(400)])
            assert 0 < left < 400
            assert int((await servers.telemetry("redis"))["evicted_keys"]) >= 400 - left
        await eviction.heal(servers, "redis")
        found = await server.read_configuration()
        assert (found["maxmemory"], found["maxmemory-policy"]) == (str(512 * 2**20), "volatile-ttl")
        await eviction.heal(servers, "redis")


async def test_a_replica_shows_nothing_new_while_it_lags_and_everything_after(tmp_path: Path) -> None:
    lag = ALL["replica_lag"]
    async with running(tmp_path, "postgres-replica") as servers:
        primary, replica = servers.nodes["postgres"].url, servers.nodes["postgres-replica"].url
        await sql(primary, "create table told as select 1 as value")
        await until_rows(replica, 1)
        await lag.inject(servers, "postgres-replica")
        await sql(primary, "insert into told values (2)")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while int((await servers.telemetry("postgres-replica"))["replication_lag_bytes"]) == 0:
            assert time.monotonic() < deadline, "the replica received nothing"
            await asyncio.sleep(0.02)
        assert await sql(replica, "select count(*) from told") == 1
        await lag.heal(servers, "postgres-replica")
        assert await sql(replica, "select count(*) from told") == 2
        await lag.heal(servers, "postgres-replica")
        assert ALL["wiped_volume"].unavailable(servers, "postgres") is not None


async def until_rows(url: str, rows: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await sql(url, "select to_regclass('told') is not null") or (
        await sql(url, "select count(*) from told") != rows
    ):
        assert time.monotonic() < deadline, "the replica did not follow"
        await asyncio.sleep(0.02)
