"""Faults of servers that already run: in the way of our own clients, or over the wire, and only where allowed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import sys
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import asyncpg
import pytest
import redis.exceptions

from soak import faults
from soak.errors import ServerUnreachableError
from soak.faults.connection_exhaustion import CONNECTIONS_MAX
from soak.faults.dropped_reply import DroppedReply
from soak.hosts import hosts_of
from soak.redis_sentinel import redis_at
from soak.servers.external.backend import PATRONI_CHANGES, OperatorCommand
from soak.servers.external.redis_groups import GivenRedisGroup
from soak.servers.external.servers import ExternalServers
from soak.servers.kinds import PostgresTopology, RedisTopology
from soak.servers.local import LocalServers
from soak.servers.ports import HOST, free_port
from soak.servers.sentinel import SentinelGroup
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.stores.speaking import Speaker
from tests.support.needs import missing
from tests.support.servers.breaking import client_of, serving, sql, started

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from soak.servers.patroni import PatroniGroup
    from soak.servers.redis_group import Node, RedisGroup
    from soak.servers.sync_standby import SyncStandbyGroup

pytestmark = pytest.mark.long  # each has servers of its own

SHORT_SECONDS = 0.3


def operated(folder: Path, *kinds: str, **options: object) -> AbstractAsyncContextManager[LocalServers]:
    """Run servers that somebody else has started."""
    return started(folder / "operator", *kinds, **options)


def given(
    folder: Path, operator: LocalServers, *allowed: str, **options: Any
) -> AbstractAsyncContextManager[ExternalServers]:
    addresses = {kind: server.url for kind, server in operator.nodes.items()}
    return serving(ExternalServers(folder, addresses, allow_faults=allowed, **options), *operator.nodes)


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
        assert "servers that soak starts" not in str(faults.ALL["latency"].unavailable(servers, "redis"))


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


SENTINEL_FAULTS = ("sentinel_failover", "coordinated_failover")
CLUSTER_FAULTS = ("cluster_failover", "cluster_failover_force", "cluster_takeover")


@pytest.mark.parametrize(
    ("topology", "failovers"),
    [(RedisTopology.SENTINEL, SENTINEL_FAULTS), (RedisTopology.CLUSTER, CLUSTER_FAULTS)],
    ids=["sentinel", "cluster"],
)
async def test_every_fault_over_the_wire_can_happen_to_a_given_group(
    tmp_path: Path, topology: RedisTopology, failovers: tuple[str, ...]
) -> None:
    restarting = tmp_path / "restart.py"
    command = OperatorCommand(f"{sys.executable} {restarting}")
    allowed = ("restart", "eviction", "ttl_change", "connection_exhaustion", "partition", *failovers)
    async with (
        operated(tmp_path, "redis", redis_topology=topology) as operator,
        given(tmp_path, operator, *allowed, restart_command=command) as servers,
    ):
        group, server = cast("RedisGroup", operator.nodes["redis"]), servers.nodes["redis"]
        assert isinstance(server, GivenRedisGroup)
        assert server.port == urlsplit(operator.nodes["redis"].url.split(",")[0]).port
        assert "is for servers that soak starts" in str(faults.ALL["failover_command"].unavailable(servers, "redis"))
        await _keys_of_the_run_expire(servers, group)
        await _memory_runs_short(servers, group)
        for name in failovers:
            fault, before = faults.ALL[name], await server.primary_places()
            assert fault.unavailable(servers, "redis") is None
            await fault.inject(servers, "redis")
            after = await server.primary_places()
            assert set(after) - set(before), f"{name} replaced nobody"
            assert (await servers.telemetry("redis"))["primary"] == ", ".join(after)
            await fault.heal(servers, "redis")
            assert await group._agree(), f"{name} was not over when it was healed"
            told = await servers.telemetry("redis")
            nodes = {f"127.0.0.1:{node.seat.front}": node for node in group.servers}
            for place, node in nodes.items():
                role = "primary" if node in await group.primaries() else "replica"
                assert re.fullmatch(rf"{role}, offset \d+(, epoch \d+)?", told[place])
        await _only_our_clients_are_cut_off(servers, group)
        before_restart = (await servers.telemetry("redis"))["run_id"]
        pid = (await group.primaries())[0].pid
        restarting.write_text(f"import os\nos.kill({pid}, 9)\n")
        await faults.ALL["restart"].inject(servers, "redis")
        await faults.ALL["restart"].heal(servers, "redis")
        assert (await servers.telemetry("redis"))["run_id"] != before_restart
        assert await server.answers()


@pytest.mark.extra
async def test_the_leader_of_a_given_patroni_is_changed_over_its_rest_api(tmp_path: Path) -> None:
    if importlib.util.find_spec("patroni") is None:
        missing("Patroni is not installed; install soak[patroni]")
    async with operated(tmp_path, "postgres", postgres_topology=PostgresTopology.PATRONI) as operator:
        group = cast("PatroniGroup", operator.nodes["postgres"])
        rest = [f"http://{node.seat.host}:{node.seat.bus_port}" for node in group.patronis]
        away = [f"http://{HOST}:{free_port()}"]
        with pytest.raises(ServerUnreachableError, match=r"does not answer at http://\S+ \(.*set testbed.patroni"):
            async with given(tmp_path, operator, *PATRONI_CHANGES, patroni=away):
                pass
        async with given(tmp_path, operator, *PATRONI_CHANGES, patroni=away + rest) as servers:
            assert "testbed.allow_faults" in str(faults.ALL["restart"].unavailable(servers, "postgres"))
            for name in sorted(PATRONI_CHANGES):
                fault, before = faults.ALL[name], (await group.leader()).name
                assert fault.unavailable(servers, "postgres") is None
                await fault.inject(servers, "postgres")
                await fault.heal(servers, "postgres")
                await group.until_agreed()
                assert (await group.leader()).name != before
                told = await servers.telemetry("postgres")
                assert told["primary"] == (await group.leader()).name
                assert told[before].startswith("replica, ")


async def _only_our_clients_are_cut_off(servers: ExternalServers, group: RedisGroup) -> None:
    partition = faults.ALL["partition"]
    assert partition.unavailable(servers, "redis") is None
    context = StoreContext(namespace="t", servers={"redis": servers.nodes["redis"].url}, timeout_seconds=1.0)
    store, speaker = await registry.open_store("redis-list", context), Speaker("run")
    sessions = [f"session-{number}" for number in range(9)]  # of a cluster, on all primaries

    async def writes(first: int) -> list[bool]:
        outcomes = [store.append(one, *speaker.turns(one, 1, first=first)) for one in sessions]
        return [not isinstance(one, Exception) for one in await asyncio.gather(*outcomes, return_exceptions=True)]

    assert all(await writes(1))
    await partition.inject(servers, "redis")
    assert not any(await writes(2)), "each server is cut off"
    assert await group._agree(), "nobody else notices"
    await partition.heal(servers, "redis")
    async with asyncio.timeout(30):
        while not all(await writes(3)):
            pass
    await store.close()


async def _keys_of_the_run_expire(servers: ExternalServers, group: RedisGroup) -> None:
    servers.namespace = "mine"
    primaries = await group.primaries()
    for primary in primaries:
        # Each key in a slot of that primary.
        for prefix in ("mine:", "other:"):
            await _first_taken(primary, (f"{prefix}{number}" for number in range(64)))
    expiring = faults.ALL["ttl_change"].having({"ttl": "10ms"})
    assert expiring.unavailable(servers, "redis") is None
    await expiring.inject(servers, "redis")
    await expiring.heal(servers, "redis")
    for primary in primaries:
        left = [key.partition(":")[0] for key in await primary.ask("KEYS", "*")]
        assert left == ["other"]


async def _first_taken(primary: Node, keys: Iterable[str]) -> None:
    for key in keys:
        with contextlib.suppress(ServerUnreachableError):  # MOVED: another one has its slot
            await primary.ask("SET", key, "x")
            return


async def _memory_runs_short(servers: ExternalServers, group: RedisGroup) -> None:
    eviction, primaries = faults.ALL["eviction"], await group.primaries()

    async def limits() -> list[int]:
        return [int((await node.get_settings("maxmemory"))["maxmemory"]) for node in primaries]

    assert eviction.unavailable(servers, "redis") is None
    await eviction.inject(servers, "redis")
    assert all(await limits())
    if isinstance(group, SentinelGroup):
        await group.fail_over(primaries[0])  # what was changed is changed back, also where another one is the primary
    await eviction.heal(servers, "redis")
    assert not any(await limits())


async def test_a_storm_takes_the_connections_of_the_primary_that_sentinels_name(tmp_path: Path) -> None:
    storm = faults.ALL["connection_exhaustion"]
    options = {"redis_topology": RedisTopology.SENTINEL, "redis_options": {"maxclients": "60"}}
    async with (
        operated(tmp_path, "redis", **options) as operator,
        given(tmp_path, operator, storm.name) as servers,
    ):
        url = servers.nodes["redis"].url
        assert storm.unavailable(servers, "redis") is None
        await storm.inject(servers, "redis")
        async with redis_at(url, timeout_seconds=5.0) as client:
            with pytest.raises(redis.exceptions.RedisError):
                await client.ping()
        await storm.heal(servers, "redis")
        async with redis_at(url, timeout_seconds=5.0) as client:
            assert await client.ping()


async def test_a_given_postgres_of_several_hosts_has_a_proxy_for_each_and_fails_over_behind_them(
    tmp_path: Path,
) -> None:
    allowed = ("partition", "dropped_reply")
    topology = {"postgres_topology": PostgresTopology.SYNC_STANDBY}
    async with operated(tmp_path, "postgres", **topology) as operator:
        async with given(tmp_path, operator, *allowed) as servers:
            ours = servers.nodes["postgres"].url
            await _is_broken_before_our_clients(servers, cast("SyncStandbyGroup", operator.nodes["postgres"]))
            await faults.ALL["primary_crash"].inject(operator, "postgres")
            await faults.ALL["primary_crash"].heal(operator, "postgres")
            assert await sql(ours, "select count(*)::text from told") == "2"
        async with given(tmp_path, operator, *allowed) as again:
            assert again.nodes["postgres"].url == ours, "clients find the same proxies when the run is resumed"


async def _is_broken_before_our_clients(servers: ExternalServers, group: SyncStandbyGroup) -> None:
    ours = servers.nodes["postgres"].url
    assert len(servers.nodes["postgres"].proxies) == len(hosts_of(ours)) == len(hosts_of(group.url)) == 2
    assert not {*hosts_of(ours)} & {*hosts_of(group.url)}
    await sql(ours, "create table told (value text)")
    await faults.ALL["partition"].inject(servers, "postgres")
    with pytest.raises(TimeoutError):
        await asyncpg.connect(ours, timeout=SHORT_SECONDS)
    await sql(group.url, "insert into told values ('of another user')")
    await faults.ALL["partition"].heal(servers, "postgres")
    dropped = DroppedReply(share=1)
    await dropped.inject(servers, "postgres")
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        await sql(ours, "insert into told values ('there')")
    await dropped.heal(servers, "postgres")
