"""Groups whose nodes are containers: they fail over, are found again after a kill, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ServerUnreachableError, UsageError
from soak.faults.catalogue import fault_named
from soak.servers.docker.servers import DockerServers
from soak.servers.kinds import PostgresTopology, RedisTopology
from soak.servers.node_group import NodeGroup
from soak.stores import registry
from soak.stores.protocol import StoreContext
from tests.support.docker.servers import NOTHING, found, running
from tests.support.servers.talk import Talk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.docker.images import Images

SENTINEL = ("redis", "redis-list", {"redis_topology": RedisTopology.SENTINEL})
CLUSTER = ("redis", "redis-list", {"redis_topology": RedisTopology.CLUSTER})
SYNC_STANDBY = ("postgres", "postgres", {"postgres_topology": PostgresTopology.SYNC_STANDBY})

OWNER = """
import asyncio, json, sys
from pathlib import Path
from soak.servers.docker.servers import DockerServers
from soak.servers.kinds import RedisTopology

async def main():
    servers = DockerServers(Path(sys.argv[1]), redis_image=sys.argv[2], redis_topology=RedisTopology.SENTINEL)
    print(json.dumps(await servers.start(["redis"])), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("kind", "store_name", "options"),
    [
        pytest.param(*SENTINEL, id="sentinel", marks=pytest.mark.long),
        pytest.param(*CLUSTER, id="cluster", marks=pytest.mark.extra),
        pytest.param(*SYNC_STANDBY, id="sync-standby", marks=pytest.mark.extra),
    ],
)
async def test_another_container_takes_over_when_the_primary_is_killed(
    tmp_path: Path, engine: Any, images: Images, kind: str, store_name: str, options: dict[str, Any]
) -> None:
    async with running(tmp_path, images, kind, **options) as servers:
        group = servers.nodes[kind]
        assert isinstance(group, NodeGroup)
        assert len(found(engine, tmp_path)["containers"]) >= len(group.nodes)
        before = {node.name for node in await group.primaries()}
        context = StoreContext(namespace="t", servers={kind: group.url}, timeout_seconds=3.0)
        store = await registry.open_store(store_name, context)
        talk = Talk(store)
        await talk.until_acknowledged(30)
        crash = fault_named("primary_crash")
        assert crash.unavailable(servers, kind) is None
        await crash.inject(servers, kind)
        assert {node.name for node in await group.primaries()} != before
        await crash.heal(servers, kind)
        await talk.until_acknowledged(30)
        lost = await talk.lost()
        assert kind == "redis" or not lost, "a synchronous standby has all"
        await store.close()
    assert found(engine, tmp_path) == NOTHING


@pytest.mark.long
async def test_the_next_start_ends_the_containers_of_an_owner_that_was_killed_and_keeps_its_data(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    image = images["valkey-9"]
    argv = [sys.executable, "-c", OWNER, str(tmp_path), image]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        url = json.loads(owner.stdout.readline())["redis"]
        store = await registry.open_store("redis-list", StoreContext(namespace="t", servers={"redis": url}))
        talk = Talk(store)
        await talk.until_acknowledged(20)
        owner.kill()
    async with running(tmp_path, images, "redis", **SENTINEL[2]) as servers:
        assert servers.nodes["redis"].url == url
        assert await talk.lost() == []
        await store.close()
    assert found(engine, tmp_path) == NOTHING


async def test_what_cannot_be_in_containers_is_one_line(
    tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = DockerServers(tmp_path, redis_image="soak-test-nowhere:latest", redis_topology=RedisTopology.SENTINEL)
    with pytest.raises(ServerUnreachableError, match=r"^\S+ cannot be started from image soak-test-nowhere:latest"):
        await servers.start(["redis"])
    await servers.discard()
    monkeypatch.setattr("soak.servers.docker.servers.why_elsewhere", lambda _client: "the Docker engine is on desktop")
    with pytest.raises(UsageError, match="redis cannot be a group in containers: the Docker engine is on desktop"):
        await servers.start(["redis"])
    await servers.discard()
    assert found(engine, tmp_path) == NOTHING
