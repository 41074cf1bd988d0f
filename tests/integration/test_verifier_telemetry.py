"""What the servers under test say of themselves, as metrics: there while they answer, absent while they do not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from soak.errors import ServerUnreachableError
from soak.servers.binaries import valkey_server
from soak.servers.inspect import inspect
from soak.servers.ports import free_port
from soak.verifier import drift
from tests.support.verifying import Soaking, Verifying, verifying

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

TALK = "talk-chat"
SECONDS_MAX = 60.0

Told = dict[str, dict[tuple[str, ...], float]]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the servers more often than in earnest, to save time."""
    monkeypatch.setattr(drift, "SAMPLE_SECONDS", 0.3)


async def told(verifier: Verifying) -> Told:
    """Return all that is exposed: by name, and then by the values of its labels."""
    families = text_string_to_metric_families((await verifier.get("/metrics")).decode())
    found: Told = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


async def until(verifier: Verifying, holds: Callable[[Told], object]) -> Told:
    await verifier.until(bool)  # it answers
    deadline = time.monotonic() + SECONDS_MAX
    while not holds(found := await told(verifier)):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.1)
    return found


def servers_telling(found: Told, server: str) -> set[str]:
    """Return the metrics that a server tells of itself."""
    return {name for name, values in found.items() if name.startswith("soak_server_") and (server,) in values}


async def test_a_server_that_hangs_tells_nothing_of_itself_until_it_answers_again(
    soaking: Soaking, testbed: TestbedThread
) -> None:
    pid = testbed.nodes["redis"].pid
    assert pid is not None
    async with soaking() as script:
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            found = await until(verifier, lambda now: now["soak_server_answers"][("redis",)] == 1)
            talking = servers_telling(found, "redis")
            assert {"soak_server_memory_used_bytes", "soak_server_evicted_keys_total"} <= talking
            os.kill(pid, signal.SIGSTOP)
            try:
                found = await until(verifier, lambda now: now["soak_server_answers"][("redis",)] == 0)
                assert servers_telling(found, "redis") == {"soak_server_answers"}
            finally:
                os.kill(pid, signal.SIGCONT)
            found = await until(verifier, lambda now: now["soak_server_answers"][("redis",)] == 1)
            assert servers_telling(found, "redis") == talking
            await verifier.finish()


async def test_redis_tells_its_memory_and_what_it_threw_away(soaking: Soaking, redis_url: str) -> None:
    async with (
        contextlib.aclosing(Redis.from_url(redis_url)) as client,
        soaking() as script,
    ):
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            before = await until(verifier, lambda now: "soak_server_expired_keys_total" in now)
            await client.set("telemetry:short-lived", "x" * 1_000_000, px=1)
            await asyncio.sleep(0.01)
            assert await client.get("telemetry:short-lived") is None
            expired = ("soak_server_expired_keys_total", ("redis",))
            rose = before[expired[0]][expired[1]]
            found = await until(verifier, lambda now: now.get(expired[0], {}).get(expired[1], 0.0) > rose)
            info = await client.info()
            assert found["soak_server_memory_used_bytes"][("redis",)] > 100_000
            assert found["soak_server_memory_max_bytes"][("redis",)] == info["maxmemory"]
            assert found["soak_server_connections_max"][("redis",)] == info["maxclients"]
            assert found["soak_server_aof_enabled"][("redis",)] == info["aof_enabled"]
            assert found["soak_server_rdb_last_save_age_seconds"][("redis",)] >= 0
            assert "soak_server_wal_bytes_total" not in found
            await verifier.finish()


async def test_postgres_tells_its_log_and_how_far_a_replica_is_behind(
    soaking: Soaking, postgres_url: str, postgres_replica_url: str
) -> None:
    servers = {"postgres": postgres_url, "postgres-replica": postgres_replica_url}
    async with soaking(store="postgres-replica", servers=servers) as script:
        await script.say(TALK, 1)
        async with verifying(script) as verifier:
            first = await until(verifier, lambda now: len(now.get("soak_server_wal_bytes_total", {})) == 2)
            await script.say(TALK, 5)
            position = first["soak_server_wal_bytes_total"][("postgres",)]
            found = await until(
                verifier,
                lambda now: (
                    min(now.get("soak_server_wal_bytes_total", {("postgres",): 0.0}).values()) > position
                    and now["soak_server_replication_lag_bytes"] == {("postgres",): 0, ("postgres-replica",): 0}
                ),
            )
            assert found["soak_server_replicas"] == {("postgres",): 1, ("postgres-replica",): 0}
            assert found["soak_server_replication_lag_seconds"] == {("postgres-replica",): 0}
            assert found["soak_server_connections"][("postgres",)] >= 1
            assert found["soak_server_connections_max"][("postgres",)] == 200
            assert found["soak_server_database_size_bytes"][("postgres",)] > 1_000_000
            assert found["soak_server_uptime_seconds"][("postgres",)] > 0
            await verifier.finish()


async def test_postgres_16_tells_its_checkpoints_too(postgres16_url: str) -> None:
    sample = await inspect("postgres", postgres16_url, timeout_seconds=10.0)
    assert int(sample.telemetry["checkpoints"]) >= 0
    assert "database_bytes" not in sample.telemetry
    sample = await inspect("postgres", postgres16_url, timeout_seconds=10.0, with_size=True)
    assert int(sample.telemetry["database_bytes"]) > 1_000_000


async def test_a_fault_is_active_from_its_beginning_to_its_end(soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, 1)
        async with verifying(script) as verifier:
            found = await until(verifier, lambda now: "soak_fault_active" in now)
            assert not any(found["soak_fault_active"].values())
            assert {("crash", "redis"), ("pause", "redis")} <= found["soak_fault_active"].keys()
            await script.fault("pause-1", "start", "pause")
            found = await until(verifier, lambda now: now["soak_fault_active"][("pause", "redis")] == 1)
            assert sum(found["soak_fault_active"].values()) == 1
            await script.fault("pause-1", "end", "pause")
            await until(verifier, lambda now: not any(now["soak_fault_active"].values()))
            await verifier.finish()


# A Redis that has a replica ----------------------------------------------------------------------------------


@contextlib.contextmanager
def valkey(folder: Path, port: int, *options: str) -> Iterator[str]:
    folder.mkdir()
    command = [str(valkey_server()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()


async def test_a_redis_replica_and_its_primary_tell_how_far_it_is_behind(tmp_path: Path) -> None:
    port = free_port()
    with (
        valkey(tmp_path / "primary", port, "--repl-diskless-sync-delay", "0") as primary,
        valkey(tmp_path / "replica", free_port(), "--replicaof", f"127.0.0.1 {port}") as replica,
    ):
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            assert time.monotonic() < deadline
            with contextlib.suppress(ServerUnreachableError):
                above = (await inspect("redis", primary, timeout_seconds=5.0)).telemetry
                below = (await inspect("redis", replica, timeout_seconds=5.0)).telemetry
                if "replication_lag_bytes" in above and "replication_lag_seconds" in below:
                    break
            await asyncio.sleep(0.1)
    assert (above["connected_slaves"], below["connected_slaves"]) == ("1", "0")
    assert int(above["replication_lag_bytes"]) >= 0
    assert int(above["replication_lag_seconds"]) >= 0
    assert int(below["replication_lag_bytes"]) == 0
    assert int(below["replication_lag_seconds"]) >= 0
