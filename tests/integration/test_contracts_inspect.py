"""What real servers tell of their configuration, and what follows from it for a contract."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from redis.asyncio import Redis

from soak.checker.telemetry import ServerSample
from soak.contracts.guarantees import EvictionScope, guarantees_of
from soak.daemon.contracts import ask_servers
from soak.errors import ServerUnreachableError
from soak.servers.inspect import inspect
from soak.servers.ports import free_port
from tests.support.servers.reconfigured import reconfigurable

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

SECONDS_MAX = 20.0


async def sampled(kind: str, url: str) -> ServerSample:
    return await inspect(kind, url, timeout_seconds=SECONDS_MAX)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    async with reconfigurable(redis_url) as client:
        yield client


@pytest.mark.parametrize("which", ["redis_url", "redis62_url"])
async def test_redis_tells_how_it_keeps_its_data(which: str, request: pytest.FixtureRequest) -> None:
    sample = await sampled("redis", request.getfixturevalue(which))
    assert sample.configuration["appendonly"] == "yes"
    assert sample.configuration["appendfsync"] == "everysec"
    assert sample.configuration["save"] == ""
    assert sample.configuration["maxmemory-policy"] == "noeviction"
    assert sample.configuration["role"] == "primary"
    counters = ("evicted_keys", "expired_keys", "run_id", "rdb_last_save_time", "aof_delayed_fsync", "keys", "loading")
    assert set(counters) <= set(sample.telemetry)
    assert guarantees_of(sample).crash.seconds == 2.0


async def test_keys_are_counted_in_the_database_of_the_address(redis_url: str, namespace: str) -> None:
    other = redis_url.rsplit("/", 1)[0] + "/7"
    client: Any = Redis.from_url(other)
    try:
        await client.set(namespace, "1")
        assert int((await sampled("redis", other)).telemetry["keys"]) == 1
        await client.delete(namespace)
        assert (await sampled("redis", other)).telemetry["keys"] == "0"
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    ("commands", "crash", "power", "eviction"),
    [
        ([("appendfsync", "always")], 0.0, 0.0, EvictionScope.NONE),
        ([("appendfsync", "no")], 0.0, None, EvictionScope.NONE),
        ([("appendonly", "no"), ("save", "900 1 60 10000")], 1000.0, 1000.0, EvictionScope.NONE),
        ([("appendonly", "no")], None, None, EvictionScope.NONE),
        ([("maxmemory-policy", "allkeys-lru")], 2.0, 2.0, EvictionScope.NONE),
        ([("maxmemory-policy", "allkeys-lru"), ("maxmemory", "900mb")], 2.0, 2.0, EvictionScope.ANY),
        ([("maxmemory-policy", "volatile-lru"), ("maxmemory", "900mb")], 2.0, 2.0, EvictionScope.EXPIRING),
    ],
    ids=["always", "no sync", "saves", "nothing", "a policy without a limit", "evicts", "evicts what expires"],
)
async def test_what_is_set_while_it_runs_is_what_counts(
    commands: list[tuple[str, str]],
    crash: float | None,
    power: float | None,
    eviction: EvictionScope,
    redis_url: str,
    client: Any,
) -> None:
    for name, value in commands:
        await client.config_set(name, value)
    given = guarantees_of(await sampled("redis", redis_url))
    assert (given.crash.seconds, given.power.seconds, given.eviction) == (crash, power, eviction)


async def test_a_server_that_denies_config_is_unknown_where_info_does_not_help(
    redis_url: str,
    client: Any,
) -> None:
    await client.execute_command("ACL", "SETUSER", "guest", "on", ">guest", "~*", "+@all", "-config")
    guest = redis_url.replace("redis://:", "redis://guest:").replace(str(urlsplit(redis_url).password), "guest")
    sample = await sampled("redis", guest)
    assert "save" not in sample.configuration
    assert "appendfsync" not in sample.configuration
    assert sample.configuration["appendonly"] == "yes"
    given = guarantees_of(sample)
    assert (given.crash.is_known, given.power.is_known, given.eviction) == (True, False, EvictionScope.NONE)
    await client.execute_command("ACL", "SETUSER", "guest", "-info")
    sample = await sampled("redis", guest)
    await client.execute_command("ACL", "DELUSER", "guest")
    assert (sample.configuration, sample.telemetry) == ({}, {})
    assert not guarantees_of(sample).crash.is_known


async def test_a_replica_says_that_it_is_one(redis_url: str, client: Any) -> None:
    await client.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
    assert guarantees_of(await sampled("redis", redis_url)).is_replica


async def test_a_paused_server_costs_no_more_than_the_timeout(redis_url: str, testbed: TestbedThread) -> None:
    pid = testbed.nodes["redis"].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServerUnreachableError, match="redis does not report its configuration"):
            await asyncio.wait_for(inspect("redis", redis_url, timeout_seconds=0.3), SECONDS_MAX)
        assert await asyncio.wait_for(ask_servers({}), SECONDS_MAX) == {}
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_server_that_is_not_there_is_unreachable_and_no_secret_is_told() -> None:
    for kind, url in (
        ("redis", f"redis://:sesame@127.0.0.1:{free_port()}/0"),
        ("postgres", f"postgresql://me:sesame@127.0.0.1:{free_port()}/db?sslmode=disable"),
    ):
        with pytest.raises(ServerUnreachableError) as told:
            await inspect(kind, url, timeout_seconds=SECONDS_MAX)
        assert "sesame" not in str(told.value)
        assert await ask_servers({kind: url}) == {}


@pytest.mark.parametrize("which", ["postgres_url", "postgres16_url"])
async def test_postgres_tells_how_it_commits(which: str, request: pytest.FixtureRequest) -> None:
    sample = await sampled("postgres", request.getfixturevalue(which))
    expected = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on", "wal_writer_delay": "200ms"}
    assert sample.configuration == {**expected, "role": "primary", "synchronous_standby_names": ""}
    assert {"pg_current_wal_lsn", "pg_postmaster_start_time", "xact_commit"} <= set(sample.telemetry)
    given = guarantees_of(sample)
    assert (given.crash.seconds, given.power.seconds, given.is_replica) == (0.0, 0.0, False)


async def test_a_replica_of_postgres_says_so_too(postgres_replica_url: str) -> None:
    sample = await sampled("postgres-replica", postgres_replica_url)
    assert (sample.configuration["role"], guarantees_of(sample).is_replica) == ("replica", True)


async def test_asynchronous_commit_is_seen_after_a_reload(postgres_url: str) -> None:
    connection: Any = await asyncpg.connect(postgres_url)
    try:
        await connection.execute("alter system set synchronous_commit = off")
        await connection.execute("select pg_reload_conf()")
        async with asyncio.timeout(SECONDS_MAX):
            while (given := guarantees_of(await sampled("postgres", postgres_url))).crash.seconds == 0.0:
                await asyncio.sleep(0.05)
        assert (given.crash.seconds, given.power.seconds) == (1.0, 1.0)
    finally:
        await connection.execute("alter system reset synchronous_commit")
        await connection.execute("select pg_reload_conf()")
        await connection.close()
