"""The servers that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
import redis

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread


def test_plain_tests_can_use_the_servers(redis_url: str, redis62_url: str, ledger_url: str) -> None:
    versions = []
    for url in (redis_url, redis62_url, ledger_url):
        with redis.Redis.from_url(url, decode_responses=True) as client:
            versions.append(client.info("server").get("valkey_version", "6.2"))
    assert versions[1] == "6.2"
    assert versions[0] == versions[2] != "6.2"


async def test_async_tests_can_use_the_servers(
    postgres_url: str, postgres_replica_url: str, postgres16_url: str
) -> None:
    recovery = []
    for url in (postgres_url, postgres_replica_url, postgres16_url):
        connection = await asyncpg.connect(url)
        recovery.append(
            (await connection.fetchval("select pg_is_in_recovery()"), connection.get_server_version().major)
        )
        await connection.close()
    assert recovery == [(False, 18), (True, 18), (False, 16)]


def test_the_effective_configuration_is_read_back(
    testbed: TestbedThread, redis_url: str, ledger_url: str, postgres_url: str, postgres_replica_url: str
) -> None:
    for kind in ("redis", "ledger"):
        found = testbed.nodes[kind].configuration
        assert found["appendonly"] == "yes"
        assert found["appendfsync"] == "everysec"
        assert found["save"] == ""
        assert found["maxmemory-policy"] == "noeviction"
        assert found["version"].startswith("9.")
    for kind in ("postgres", "postgres-replica"):
        found = testbed.nodes[kind].configuration
        assert found["fsync"] == "on"
        assert found["synchronous_commit"] == "on"
        assert found["wal_level"] == "replica"
        assert found["server_version"].startswith("18")


def test_older_versions_are_configured_alike(testbed62: TestbedThread, redis62_url: str, postgres16_url: str) -> None:
    assert testbed62.nodes["redis"].configuration["version"].startswith("6.2")
    assert testbed62.nodes["redis"].configuration["appendonly"] == "yes"
    assert testbed62.nodes["redis"].configuration["save"] == ""
    assert testbed62.nodes["postgres"].configuration["server_version"].startswith("16")
    assert testbed62.nodes["postgres"].configuration["synchronous_commit"] == "on"


@pytest.mark.parametrize("older", [False, True])
def test_redis_telemetry_tells_what_explains_a_loss(
    testbed: TestbedThread, testbed62: TestbedThread, redis_url: str, redis62_url: str, *, older: bool
) -> None:
    assert set((testbed62 if older else testbed).telemetry("redis")) >= {
        "keys",
        "aof_pending_bio_fsync",
        "aof_buffer_length",
        "aof_delayed_fsync",
        "rdb_last_save_time",
        "rdb_changes_since_last_save",
        "evicted_keys",
        "expired_keys",
        "run_id",
    }


def test_postgres_telemetry_tells_how_far_the_replica_is_behind(
    testbed: TestbedThread, postgres_replica_url: str
) -> None:
    primary = testbed.telemetry("postgres")
    replica = testbed.telemetry("postgres-replica")
    assert primary["pg_is_in_recovery"] == "false"
    assert "/" in primary["pg_current_wal_lsn"]
    assert int(primary["replication_lag_bytes"]) >= 0
    assert replica["pg_is_in_recovery"] == "true"
    assert int(replica["replication_lag_bytes"]) >= 0
