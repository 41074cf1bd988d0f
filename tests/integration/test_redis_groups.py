"""Redis with Sentinel, and Redis Cluster: each starts, fails over, and is judged by what it can promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from soak.daemon.contracts import ask_servers, given_by
from soak.errors import ServerUnreachableError
from soak.faults import ALL
from soak.servers.kinds import RedisTopology
from soak.servers.sentinel import SentinelGroup
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.stores.speaking import Speaker
from tests.support.servers.breaking import running, started
from tests.support.servers.talk import Talk

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.local import LocalServers
    from soak.servers.redis_group import RedisGroup
    from soak.stores.protocol import MemoryStore
    from soak.stores.redis_stores import RedisStore

pytestmark = pytest.mark.long

SENTINEL = {"redis_topology": RedisTopology.SENTINEL}
CLUSTER = {"redis_topology": RedisTopology.CLUSTER}
STORES = ["redis-list", "redis-stream", "redis-zset", "redis-hash"]


def context_of(servers: LocalServers, **options: object) -> StoreContext:
    return StoreContext(namespace="t", servers={"redis": servers.nodes["redis"].url}, **options)  # type: ignore[arg-type]


def group_of(servers: LocalServers) -> SentinelGroup:
    return cast("SentinelGroup", servers.nodes["redis"])


@pytest.mark.parametrize("topology", [SENTINEL, CLUSTER], ids=["sentinel", "cluster"])
async def test_stores_work_on_a_group_and_contracts_follow_from_its_weakest_node(
    tmp_path: Path, topology: dict[str, RedisTopology]
) -> None:
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        for name in STORES:
            for is_verifier in (False, True):
                await use(await registry.open_store(name, context_of(servers, is_verifier=is_verifier)))
        given = given_by(await ask_servers({"redis": group.url}))["redis"]
        assert given.failover is not None
        assert (given.crash.seconds, given.failover.seconds) == (2.0, 2.0)
        # Any node may become the primary: what one of them does not keep, the group does not promise.
        primaries = await group.primaries()
        replica = next(node for node in group.nodes if node not in primaries and node.name.startswith("redis"))
        await replica.change_settings({"appendonly": "no"})
        assert given_by(await ask_servers({"redis": group.url}))["redis"].crash.seconds is None


async def use(store: MemoryStore) -> None:
    """Write, read, forget, and remove all that is left, in sessions that lie on several nodes."""
    speaker = Speaker("run")
    sessions = [speaker.session(f"session-{number}") for number in range(6)]
    for session in sessions:
        for message in speaker.turns(session, 3):
            await store.append(session, message)
        assert len(await store.history(session)) == 3
    await store.forget(sessions[0])
    assert await store.history(sessions[0]) == []
    await cast("RedisStore", store).clean_up()
    assert [await store.history(session) for session in sessions] == [[]] * 6
    await store.close()


@pytest.mark.parametrize(
    ("topology", "name", "loses"),
    [
        (SENTINEL, "primary_crash", None),
        (SENTINEL, "coordinated_failover", False),
        (SENTINEL, "sentinel_failover", True),
        (SENTINEL, "partial_partition", True),
        (CLUSTER, "primary_crash", None),
        (CLUSTER, "cluster_failover", False),
        (CLUSTER, "cluster_takeover", None),
        (CLUSTER, "primary_partition", None),
    ],
)
async def test_a_failover_takes_what_it_is_known_to_take(
    tmp_path: Path, topology: dict[str, RedisTopology], name: str, loses: bool | None
) -> None:
    fault = ALL[name]
    async with running(tmp_path, "redis", **topology) as servers:
        group = cast("RedisGroup", servers.nodes["redis"])
        before = {node.name for node in await group.primaries()}
        store = await registry.open_store("redis-list", context_of(servers, timeout_seconds=1.0))
        talk = Talk(store)
        await talk.until_acknowledged(50)
        healthy = talk.acknowledged[-1]
        assert fault.unavailable(servers, "redis") is None
        await fault.inject(servers, "redis")
        after = {node.name for node in await group.primaries()}
        assert after != before
        await fault.heal(servers, "redis")
        await talk.until_acknowledged(50)
        lost = await talk.lost()
        if loses is not None:
            assert bool(lost) is loses
        assert all(seq > healthy - 50 for seq in lost), "nothing old"
        assert {*(await group.telemetry())["primary"].split(", ")} == {node.name for node in await group.primaries()}
        await store.close()


async def test_a_group_that_is_started_again_keeps_its_roles_and_its_data(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        await ALL["coordinated_failover"].inject(servers, "redis")
        await ALL["coordinated_failover"].heal(servers, "redis")
        (primary,) = [node.name for node in await group_of(servers).primaries()]
        store = await registry.open_store("redis-list", context_of(servers))
        speaker = Speaker("run")
        for message in speaker.turns("kept", 5):
            await store.append("kept", message)
        await store.close()
    async with running(tmp_path, "redis", **SENTINEL) as servers:
        assert [node.name for node in await group_of(servers).primaries()] == [primary]
        store = await registry.open_store("redis-list", context_of(servers))
        assert len(await store.history("kept")) == 5
        await store.close()


async def test_what_is_for_one_server_is_refused_and_a_single_server_has_no_failover(tmp_path: Path) -> None:
    async with started(tmp_path / "group", "redis", **SENTINEL) as servers:
        assert "group of nodes" in (ALL["restart_from_rdb"].unavailable(servers, "redis") or "")
    async with started(tmp_path / "single", "redis") as servers:
        assert "--redis sentinel" in (ALL["primary_crash"].unavailable(servers, "redis") or "")


async def test_a_name_that_the_sentinels_do_not_know_is_one_clear_line(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", **SENTINEL) as servers:
        url = servers.nodes["redis"].url.replace("/memory", "/mymaster")
        with pytest.raises(ServerUnreachableError) as refused:
            await registry.open_store("redis-list", StoreContext(namespace="t", servers={"redis": url}))
        assert "the sentinels watch memory, and no mymaster" in str(refused.value)
        assert servers.nodes["redis"].pinned.password not in str(refused.value)
        assert "\n" not in str(refused.value)
