"""The built-in stores keep the contract that the suite holds a team's own store to, and so does the example."""

from __future__ import annotations

import pytest

from soak.pytest_plugin import MemoryContract


class TestRedisList(MemoryContract):
    store = "redis-list"
    versions = ("valkey-9",)


@pytest.mark.long
class TestRedisListOnAnOlderServer(MemoryContract):
    store = "redis-list"
    versions = ("redis-6.2",)
    recordings = "soak_recordings/TestRedisList"


class TestPostgres(MemoryContract):
    store = "postgres"
    versions = ("postgres-18",)


@pytest.mark.long
class TestPostgresOnAnOlderServer(MemoryContract):
    store = "postgres"
    versions = ("postgres-16",)
    recordings = "soak_recordings/TestPostgres"


@pytest.mark.long
class TestPgvector(MemoryContract):
    store = "pgvector"
    versions = ("postgres-18",)


@pytest.mark.extra
class TestRedisStream(MemoryContract):
    store = "redis-stream"
    versions = ("valkey-9",)


@pytest.mark.extra
class TestRedisZset(MemoryContract):
    store = "redis-zset"
    versions = ("valkey-9",)


class TestRedisHash(MemoryContract):
    store = "redis-hash"
    versions = ("valkey-9",)


@pytest.mark.long
class TestPostgresReplica(MemoryContract):
    store = "postgres-replica"
    versions = ("postgres-18",)


@pytest.mark.extra
class TestExample(MemoryContract):
    store = "examples.my_memory:MyMemory"
    versions = ("valkey-9",)
