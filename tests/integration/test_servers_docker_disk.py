"""Containers whose power is cut: what they lose, and that no disk of theirs is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from soak import cli
from soak.errors import ExitCode, ServerUnreachableError
from soak.faults import ALL
from soak.servers.docker.engine import why_elsewhere
from soak.servers.docker.servers import DockerServers
from soak.servers.power_cut import LoopbackVolume
from soak.servers.server import LifecycleEvent
from tests.support.docker.servers import NOTHING, found, running
from tests.support.servers.breaking import client_of, has, put
from tests.support.servers.disks import append_zeros, left_of
from tests.support.servers.power import broken_while_writing, until_synced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.docker.images import Images

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_disks")]

POWER_CUT = ALL["power_cut"]
POWERED: dict[str, Any] = {"power_cuts": True, "disk_size": "256m"}
ROUNDS_MAX = 4

OWNER = """
import asyncio, json, sys
from pathlib import Path
from soak.servers.docker.servers import DockerServers

async def main():
    servers = DockerServers(Path(sys.argv[1]), redis_image=sys.argv[2], power_cuts=True, disk_size="256m")
    print(json.dumps(await servers.start(["redis"])), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path, engine: Any) -> Iterator[Path]:
    """Give a folder of which nothing may be left, neither in Docker nor mounted or attached."""
    yield tmp_path
    assert left_of(tmp_path) == []
    assert found(engine, tmp_path) == NOTHING


async def test_a_container_loses_what_it_had_not_synced_and_nothing_else(folder: Path, images: Images) -> None:
    async with running(folder, images, "redis", **POWERED) as servers:
        assert POWER_CUT.unavailable(servers, "redis") is None
        server = servers.nodes["redis"]
        await put(server)
        await until_synced(server.url)
        for _ in range(ROUNDS_MAX):
            broken = await broken_while_writing(servers, "redis", "power_cut")
            assert await has(server)
            if broken.lost:  # hardly ever not: then the sync and the cut met
                break
        assert broken.lost
        assert (await broken_while_writing(servers, "redis", "crash")).lost == []
        await ALL["wiped_volume"].inject(servers, "redis")
        await ALL["wiped_volume"].heal(servers, "redis")
        assert not await has(server)


@pytest.mark.parametrize(
    ("kind", "options"), [("redis", {"redis_options": {"appendfsync": "always"}}), ("postgres", {})]
)
async def test_one_that_syncs_before_it_answers_loses_nothing(
    folder: Path, images: Images, kind: str, options: dict[str, Any]
) -> None:
    async with running(folder, images, kind, **POWERED, **options) as servers:
        assert (await broken_while_writing(servers, kind, "power_cut")).lost == []


async def test_zeros_at_the_end_of_its_file_are_refused_cut_off_and_told(folder: Path, images: Images) -> None:
    events: list[LifecycleEvent] = []
    async with running(folder, images, "redis", on_event=events.append, **POWERED) as servers:
        server = servers.nodes["redis"]
        await put(server)
        await until_synced(server.url)
        await POWER_CUT.inject(servers, "redis")
        append_zeros(server.power, "")
        await POWER_CUT.heal(servers, "redis")
        assert await has(server)
    assert [event.what for event in events] == ["repaired"]
    assert "refused to start after the power cut" in events[0].detail


async def test_it_keeps_data_and_address_and_between_two_starts_nothing_is_left_but_the_image(
    folder: Path, engine: Any, images: Images
) -> None:
    first = DockerServers(folder, redis_image=images["valkey-9"], **POWERED)
    url = (await first.start(["redis"]))["redis"]
    await put(first.nodes["redis"])
    await first.stop()
    assert left_of(folder) == []
    assert found(engine, folder) == NOTHING
    # Whether or not power cuts are wanted: data stays where it was begun.
    async with running(folder, images, "redis") as second:
        assert second.nodes["redis"].url == url
        assert await has(second.nodes["redis"])
        assert isinstance(second.nodes["redis"].power, LoopbackVolume)


async def test_what_was_begun_in_a_volume_stays_there_and_says_so(folder: Path, images: Images) -> None:
    first = DockerServers(folder, redis_image=images["valkey-9"])
    await first.start(["redis"])
    await put(first.nodes["redis"])
    await first.stop()
    async with running(folder, images, "redis", **POWERED) as second:
        assert await has(second.nodes["redis"])
        assert "was begun in a volume" in str(POWER_CUT.unavailable(second, "redis"))


async def test_where_the_engine_cannot_have_our_disks_the_fault_says_why(
    folder: Path, engine: Any, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(folder, images, "redis", power_cut_by="shim", **POWERED) as servers:
        assert "the shim is for servers from packages" in str(POWER_CUT.unavailable(servers, "redis"))
    assert why_elsewhere(engine) is None

    class Elsewhere:
        def __init__(self, **told: Any) -> None:
            self._told = {"Name": os.uname().nodename, **told}

        def info(self) -> dict[str, Any]:
            return self._told

    assert "the Docker engine is on desktop" in str(why_elsewhere(Elsewhere(Name="desktop")))
    assert "rootless" in str(why_elsewhere(Elsewhere(SecurityOptions=["name=rootless"])))
    monkeypatch.setenv("DOCKER_HOST", "tcp://there:2375")
    assert "the Docker engine is at tcp://there:2375" in str(why_elsewhere(engine))


async def test_nothing_is_left_when_a_start_fails(folder: Path, images: Images) -> None:
    servers = DockerServers(folder, redis_image=images["valkey-9"], redis_options={"nonsense": "yes"}, **POWERED)
    with pytest.raises(ServerUnreachableError, match="ended while starting"):
        await servers.start(["redis"])
    assert left_of(folder) == []


@pytest.mark.parametrize("by", ["other", "clean"])
async def test_what_a_killed_owner_left_is_removed_by_anybody_and_resumed_by_its_own_folder(
    folder: Path, images: Images, by: str
) -> None:
    mine = folder / "mine"
    command = [sys.executable, "-c", OWNER, str(mine), images["valkey-9"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        url = json.loads(owner.stdout.readline())["redis"]
        async with client_of(url) as client:
            await client.set("kept", "yes")
        assert len(left_of(mine)) == 1
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    if by == "clean":
        assert cli.main(["clean", "--leftovers"]) == ExitCode.PASS
        assert left_of(mine) == []
    else:
        async with running(folder / "other", images, "redis", **POWERED):
            assert left_of(mine) == []
    async with running(mine, images, "redis", **POWERED) as servers:
        assert servers.nodes["redis"].url == url
        assert await has(servers.nodes["redis"])
