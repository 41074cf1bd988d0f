"""Faults of servers that already run: in the way of our own clients, or over the wire, and only where allowed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import redis.exceptions

from soak import faults
from soak.errors import ServerUnreachableError
from soak.faults.connection_exhaustion import CONNECTIONS_MAX
from soak.faults.dropped_reply import DroppedReply
from soak.servers.external.servers import ExternalServers
from soak.servers.local import LocalServers
from soak.servers.ports import HOST
from tests.support.servers.breaking import client_of, sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.long  # each has servers of its own

SHORT_SECONDS = 0.3


@contextlib.asynccontextmanager
async def operated(folder: Path, *kinds: str, **options: object) -> AsyncIterator[LocalServers]:
    """Run servers that somebody else has started."""
    servers = LocalServers(folder / "operator", **options)  # type: ignore[arg-type]
    await servers.start(kinds)
    try:
        yield servers
    finally:
        await servers.stop()


@contextlib.asynccontextmanager
async def given(folder: Path, operator: LocalServers, *allowed: str, **options: Any) -> AsyncIterator[ExternalServers]:
    addresses = {kind: server.url for kind, server in operator.nodes.items()}
    servers = ExternalServers(folder, addresses, allow_faults=allowed, **options)
    await servers.start(operator.nodes)
    try:
        yield servers
    finally:
        await servers.stop()


async def test_a_partition_of_a_given_server_holds_up_our_clients_and_nobody_else(tmp_path: Path) -> None:
    partition = faults.ALL["partition"]
    async with operated(tmp_path, "redis") as operator, given(tmp_path, operator, "partition") as servers:
        direct, ours = operator.nodes["redis"].url, servers.nodes["redis"].url
        assert ours != direct
        assert urlsplit(ours).password == urlsplit(direct).password
        assert partition.unavailable(servers, "redis") is None
        async with client_of(ours, SHORT_SECONDS) as client, client_of(direct) as other:
            await client.rpush("session", "before")
            await partition.inject(servers, "redis")
            with pytest.raises(redis.exceptions.TimeoutError):
                await client.rpush("session", "during")
            assert await other.rpush("session", "of another user") == 2
            assert await servers.telemetry("redis"), "what we ask the server itself goes past the proxy"
            await partition.heal(servers, "redis")
        async with client_of(ours) as client:
            assert (await client.lrange("session", 0, -1))[:2] == ["before", "of another user"]
        assert "testbed.allow_faults" in str(faults.ALL["latency"].unavailable(servers, "redis"))
        assert "process or its disk" not in str(faults.ALL["latency"].unavailable(servers, "redis"))


async def test_a_given_postgres_behind_the_proxy_applies_what_it_does_not_get_to_acknowledge(tmp_path: Path) -> None:
    dropped = DroppedReply(share=1)
    async with operated(tmp_path, "postgres") as operator, given(tmp_path, operator, "dropped_reply") as servers:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told (value text)")
        assert dropped.unavailable(servers, "postgres") is None
        await dropped.inject(servers, "postgres")
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
            await sql(url, "insert into told values ('there')")
        await dropped.heal(servers, "postgres")
        assert await sql(url, "select value from told") == "there"


async def test_the_proxy_of_a_given_server_keeps_its_port_and_listens_where_it_is_told(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis") as operator:
        async with given(tmp_path, operator, "partition") as servers:
            first = servers.nodes["redis"].url
        with pytest.raises(OSError, match=str(urlsplit(first).port)):
            await asyncio.open_connection(HOST, urlsplit(first).port)
        async with given(tmp_path, operator, "partition", proxy_host="127.0.0.2") as servers:
            again = servers.nodes["redis"].url
            assert urlsplit(again).port == urlsplit(first).port
            assert urlsplit(again).hostname == "127.0.0.2"
            with pytest.raises(OSError, match=str(urlsplit(first).port)):
                await asyncio.open_connection(HOST, urlsplit(first).port)
            async with client_of(again) as client:
                assert await client.ping()
            await faults.ALL["partition"].inject(servers, "redis")
            async with client_of(again, SHORT_SECONDS) as client:
                with pytest.raises(redis.exceptions.TimeoutError):
                    await client.ping()
            await faults.ALL["partition"].heal(servers, "redis")
        async with given(tmp_path, operator, "partition", proxy_host="0.0.0.0") as servers, client_of(first) as client:
            assert servers.nodes["redis"].url == first, "on this machine it is reached by the loopback address"
            assert await client.ping()
        state = (tmp_path / "servers" / "external" / "state.json").read_text()
        assert str(urlsplit(first).password) not in state


async def test_without_a_fault_of_the_network_a_given_server_has_no_proxy(tmp_path: Path) -> None:
    async with operated(tmp_path, "redis") as operator, given(tmp_path, operator, "eviction") as servers:
        assert servers.nodes["redis"].url == operator.nodes["redis"].url
        assert servers.nodes["redis"].proxy is None


async def test_a_given_server_that_no_proxy_can_stand_before_says_so_when_a_fault_is_asked_for(tmp_path: Path) -> None:
    servers = ExternalServers(tmp_path, {"redis": "unix:///run/nowhere.sock"}, allow_faults=["partition"])
    await servers.start(["redis"])
    assert servers.nodes["redis"].url == "unix:///run/nowhere.sock"
    assert "a socket of this machine" in str(faults.ALL["partition"].unavailable(servers, "redis"))
    await servers.stop()


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_storm_takes_all_connections_that_a_given_server_allows_and_gives_them_back(
    tmp_path: Path, kind: str
) -> None:
    storm = faults.ALL["connection_exhaustion"]
    limits = {"redis_options": {"maxclients": "40"}, "postgres_options": {"max_connections": "20"}}
    async with operated(tmp_path, kind, **limits) as operator, given(tmp_path, operator, storm.name) as servers:
        url = servers.nodes[kind].url

        async def ask() -> None:
            if kind == "postgres":
                await sql(url, "select 1")
            else:
                async with client_of(url) as client:
                    await client.ping()

        await ask()
        assert storm.unavailable(servers, kind) is None
        await storm.inject(servers, kind)
        with pytest.raises((redis.exceptions.RedisError, asyncpg.PostgresError)):
            await ask()
        await storm.heal(servers, kind)
        await ask()
        await storm.heal(servers, kind)
        if kind == "redis":
            async with client_of(url) as client:
                assert (await client.config_get("maxclients"))["maxclients"] == "40"


async def test_a_given_server_that_allows_more_than_we_take_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storm = faults.ALL["connection_exhaustion"]
    async with operated(tmp_path, "redis") as operator, given(tmp_path, operator, storm.name) as servers:
        assert f"more than the {CONNECTIONS_MAX}" in str(storm.unavailable(servers, "redis"))
        # One that does not tell its limit is found out in the storm.
        monkeypatch.setattr("soak.faults.connection_exhaustion.CONNECTIONS_MAX", 32)
        with pytest.raises(ServerUnreachableError, match="took 32 connections and would take more"):
            await storm.inject(servers, "redis")
        await storm.heal(servers, "redis")
        assert await servers.telemetry("redis")
