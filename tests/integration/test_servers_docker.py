"""Servers in containers: started, broken, found again, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from soak import faults
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.docker import ownership
from soak.servers.docker.servers import DockerServers
from soak.servers.server import LifecycleEvent, ServerState
from soak.servers.versions import redis_version
from tests.support.docker.servers import NOTHING, found, running
from tests.support.servers.breaking import client_of, has, put, until

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.server import Server
    from tests.support.docker.images import Images

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

OWNER = """
import asyncio, json, sys
from pathlib import Path
from soak.servers.docker.servers import DockerServers

async def main():
    servers = DockerServers(Path(sys.argv[1]), redis_image=sys.argv[2])
    print(json.dumps(await servers.start(["redis"])), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_all_kinds_keep_data_and_addresses_and_leave_nothing_behind(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    kinds = ("redis", "postgres", "postgres-replica")
    options: dict[str, Any] = {"redis_image": images["valkey-9"], "postgres_image": images["postgres-18"]}
    first = DockerServers(tmp_path, **options)
    second = DockerServers(tmp_path, **options)
    try:
        urls = await first.start(kinds)
        assert {server.state for server in first.nodes.values()} == {ServerState.RUNNING}
        assert len(found(engine, tmp_path)["containers"]) == 3
        await put(first.nodes["redis"])
        await put(first.nodes["postgres"])
        assert (await first.telemetry("postgres-replica"))["pg_is_in_recovery"] == "true"
        await first.stop()
        left = found(engine, tmp_path)
        assert (left["containers"], left["networks"], len(left["volumes"])) == ([], [], 3)
        assert await second.start(kinds) == urls
        for kind in kinds[:2]:
            assert await has(second.nodes[kind])
        await until_there(second.nodes["postgres-replica"])
    finally:
        await second.stop()
        await first.stop()
        await second.discard()
    assert found(engine, tmp_path) == NOTHING


async def until_there(server: Server) -> None:
    for _ in range(1_000):
        if await has(server):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the replica did not follow")


async def test_a_container_has_limits_labels_a_health_check_and_a_port_of_the_loopback_address(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    async with running(tmp_path, images, "redis", memory="64m", cpus=0.5) as servers:
        server = servers.nodes["redis"]
        (name,) = found(engine, tmp_path)["containers"]
        container = engine.containers.get(name)
        host = container.attrs["HostConfig"]
        assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (64 * 2**20, 64 * 2**20, 5 * 10**8)
        assert container.labels[ownership.SERVER_LABEL] == "redis"
        assert container.labels[ownership.FOLDER_LABEL] == str(tmp_path.resolve())
        assert container.ports["6379/tcp"] == [{"HostIp": "127.0.0.1", "HostPort": str(server.port)}]
        assert container.attrs["Config"]["Healthcheck"]["Test"] == ["CMD", "valkey-cli", "ping"]
        # A password in the command line would show in the list of processes.
        assert server.pinned.password not in json.dumps(container.attrs["Config"]["Cmd"])
        assert server.configuration["appendfsync"] == "everysec"

        def is_healthy() -> bool:
            container.reload()
            return bool(container.attrs["State"]["Health"]["Status"] == "healthy")

        await until(is_healthy)


@pytest.mark.parametrize("version", ["valkey-9", "redis-6.2", "postgres-18"])
async def test_a_server_is_broken_on_purpose_and_comes_back_under_its_address(
    tmp_path: Path, images: Images, version: str
) -> None:
    kind = "postgres" if version.startswith("postgres") else "redis"
    options: dict[str, Any] = {f"{kind}_image": images[version]}
    if kind == "redis":
        options["redis_version"] = redis_version(version)
    events: list[LifecycleEvent] = []
    async with running(tmp_path, images, kind, on_event=events.append, **options) as servers:
        server = servers.nodes[kind]
        url = server.url
        await put(server)
        for verb in (server.kill, server.stop_cleanly):
            await verb()
            assert (server.pid, server.state) == (None, ServerState.STOPPED)
            await server.start_again()
            assert (server.url, server.state, await has(server)) == (url, ServerState.RUNNING, True)
        await server.pause()
        asking = asyncio.create_task(has(server))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        assert not done
        await server.resume()
        assert await asking
        with pytest.raises(UsageError, match="only while it is stopped"):
            await server.wipe()
        await server.pause()
        await server.kill()
        await server.wipe()
        await server.start_again()
        assert await has(server) is False
        with pytest.raises(UsageError, match="in the Docker volume"):
            _ = server.working_folder
        assert server.log_path.stat().st_size > 0
    assert events == []


async def test_a_container_that_dies_by_itself_is_started_again_with_its_data(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    events: list[LifecycleEvent] = []
    async with running(tmp_path, images, "redis", on_event=events.append) as servers:
        server = servers.nodes["redis"]
        await put(server)
        engine.containers.get(found(engine, tmp_path)["containers"][0]).kill()
        await until(lambda: server.restarts == 1)
        assert await has(server)
    assert [event.what for event in events] == ["died", "restarted"]
    assert "exit status 137" in events[0].detail


async def test_faults_happen_to_containers_as_they_do_to_processes(tmp_path: Path, images: Images) -> None:
    async with running(tmp_path, images, "redis", "postgres-replica", proxied=True) as servers:
        targets = {"replica_lag": "postgres-replica"}
        for name in ("restart", "crash", "pause", "connection_refused", "dropped_reply", "eviction", "replica_lag"):
            fault, target = faults.ALL[name], targets.get(name, "redis")
            assert fault.unavailable(servers, target) is None
            await put(servers.nodes["redis"])
            await fault.inject(servers, target)
            await fault.heal(servers, target)
            assert servers.nodes[target].state is ServerState.RUNNING
            assert await servers.telemetry(target)
        await faults.ALL["wiped_volume"].inject(servers, "redis")
        await faults.ALL["wiped_volume"].heal(servers, "redis")
        assert await has(servers.nodes["redis"]) is False
        assert faults.ALL["power_cut"].unavailable(servers, "redis") == "the servers were started without power cuts"
        with pytest.raises(UsageError, match="cannot be cut"):
            await servers.nodes["redis"].cut_power()


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_server_whose_memory_is_used_up_is_killed_and_comes_back_with_its_data(
    tmp_path: Path, images: Images, kind: str
) -> None:
    events: list[LifecycleEvent] = []
    async with running(tmp_path, images, kind, memory="96m", on_event=events.append) as servers:
        server = servers.nodes[kind]
        assert server.backend.memory_bytes is not None
        await put(server)
        await server.exhaust_memory()
        assert (server.pid, server.state) == (None, ServerState.STOPPED)
        await server.start_again()
        assert await has(server)
    assert events == []


@contextlib.contextmanager
def owner(folder: Path, image: str) -> Any:
    """Run servers from another process."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), image], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


async def test_what_a_killed_owner_left_is_ended_by_anybody_and_resumed_by_its_own_folder(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    with owner(mine, images["valkey-9"]) as (process, urls):
        async with client_of(urls["redis"]) as client:
            await client.set("kept", "yes")
        async with running(other, images, "redis"):
            assert len(found(engine, mine)["containers"]) == 1, "its owner lives"
        with pytest.raises(UsageError, match=f"process {process.pid} runs the servers"):
            await DockerServers(mine, redis_image=images["valkey-9"]).start(["redis"])
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(found(engine, mine)["containers"]) == 1, "nobody is there to remove it"
    async with running(other, images, "redis"):
        left = found(engine, mine)
        assert (left["containers"], left["networks"], len(left["volumes"])) == ([], [], 1)
    async with running(mine, images, "redis") as servers:
        assert servers.nodes["redis"].url == urls["redis"]
        assert await has(servers.nodes["redis"])
    assert found(engine, mine) == NOTHING


async def test_volumes_whose_data_folder_is_gone_are_removed_by_the_next_start(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    gone, kept, other = tmp_path / "gone", tmp_path / "kept", tmp_path / "other"
    beds = [DockerServers(folder, redis_image=images["valkey-9"]) for folder in (gone, kept)]
    for servers in beds:
        await servers.start(["redis"])
        await servers.stop()
    shutil.rmtree(gone)
    # As a soak that is over puts aside what it leaves.
    (kept / "runs" / "r1").mkdir(parents=True)
    (kept / "servers").rename(kept / "runs" / "r1" / "servers")
    async with running(other, images, "redis"):
        assert found(engine, gone) == NOTHING
        assert len(found(engine, kept)["volumes"]) == 1
    await beds[1].discard()
    assert found(engine, kept) == NOTHING


async def test_what_cannot_be_started_is_one_clear_line(
    tmp_path: Path, engine: Any, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ServerUnreachableError, match="docker pull soak-test-none:1") as caught:
        await DockerServers(tmp_path, redis_image="soak-test-none:1").start(["redis"])
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="ledger is never in Docker"):
        await DockerServers(tmp_path).start(["ledger"])
    async with running(tmp_path, images, "redis") as servers:
        await servers.stop()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", servers._state.servers["redis"].port))
            other.listen()
            with pytest.raises(ServerUnreachableError, match="the port is taken by another"):
                await servers.start(["redis"])
    assert found(engine, tmp_path) == NOTHING
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(ServerUnreachableError, match="no Docker engine answers"):
        await DockerServers(tmp_path).start(["redis"])
