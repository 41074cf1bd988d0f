"""The built-in stores keep the contract that the suite holds a team's own store to, and so does the example."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from soak.pytest_plugin import MemoryContract
from soak.stores.chroma import ChromaStore
from soak.stores.protocol import StoreContext
from soak.stores.sqlite import SqliteStore


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


@pytest.mark.extra  # test_stores.py tries every store on both versions
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


@pytest.mark.extra
class TestChroma(MemoryContract):
    """On the server of the tests: the plugin starts no Chroma of its own."""

    needs = ()
    contract = ChromaStore.contract
    url: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _server(self, chroma_url: str) -> None:
        type(self).url = chroma_url

    async def open_store(self, context: StoreContext) -> ChromaStore:
        return await ChromaStore.open(msgspec.structs.replace(context, servers={"chroma": self.url}))


class TestSqlite(MemoryContract):
    """On a file of the tests: there is no server to start."""

    needs = ()
    contract = SqliteStore.contract
    url: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _file(self, sqlite_url: str) -> None:
        type(self).url = sqlite_url

    async def open_store(self, context: StoreContext) -> SqliteStore:
        return await SqliteStore.open(msgspec.structs.replace(context, servers={"sqlite": self.url}))
