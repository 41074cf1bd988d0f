"""Ways to end a server and bring it back: what is there afterwards is what the way it ended had kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.errors import ServerUnreachableError
from soak.faults import ALL
from tests.support.servers.breaking import client_of, running

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.local import LocalServers

AOF = {"appendonly": "yes", "save": ""}
RDB = {"appendonly": "no", "save": "900 1"}
BOTH = {"appendonly": "yes", "save": "900 1"}
NOTHING = {"appendonly": "no", "save": ""}
FLAVOURS = ["valkey", "redis"]


async def append(servers: LocalServers, *values: str) -> None:
    async with client_of(servers.nodes["redis"].url) as client:
        await client.rpush("session", *values)


async def remembered(servers: LocalServers) -> list[str]:
    async with client_of(servers.nodes["redis"].url) as client:
        found: list[str] = await client.lrange("session", 0, -1)
        return found


async def through(servers: LocalServers, name: str) -> None:
    """Let a fault that takes the server down happen, and heal it twice."""
    fault = ALL[name]
    assert fault.unavailable(servers, "redis") is None
    await fault.inject(servers, "redis")
    with pytest.raises(ServerUnreachableError):
        await servers.telemetry("redis")
    await fault.heal(servers, "redis")
    pid = servers.nodes["redis"].pid
    await fault.heal(servers, "redis")
    assert servers.nodes["redis"].pid == pid


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("options", [AOF, BOTH])
@pytest.mark.parametrize("name", ["restart_from_aof", "restart_from_rdb", "shutdown_nosave"])
async def test_a_server_with_an_append_only_file_loses_nothing(
    tmp_path: Path, name: str, options: dict[str, str], flavour: str
) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=options) as servers:
        await append(servers, "one")
        await through(servers, name)
        assert await remembered(servers) == ["one"]
        found = await servers.nodes["redis"].read_configuration()
        assert (found["appendonly"], found["save"]) == ("yes", options["save"])
        # What comes after it is as safe as before.
        await append(servers, "two")
        await through(servers, "crash")
        assert await remembered(servers) == ["one", "two"]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("name", "left"), [("restart_from_rdb", ["one", "two"]), ("shutdown_nosave", ["one"])])
async def test_a_server_with_snapshots_alone_loses_what_came_after_the_last_unless_it_saves_as_it_ends(
    tmp_path: Path, name: str, left: list[str], flavour: str
) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=RDB) as servers:
        await append(servers, "one")
        async with client_of(servers.nodes["redis"].url) as client:
            await client.save()
        await append(servers, "two")
        await through(servers, name)
        assert await remembered(servers) == left


async def test_a_move_by_snapshot_reads_the_snapshot_and_not_the_append_only_file(tmp_path: Path) -> None:
    fault = ALL["restart_from_rdb"]
    async with running(tmp_path, "redis") as servers:
        await append(servers, "one")
        await fault.inject(servers, "redis")
        for log in servers.nodes["redis"].working_folder.rglob("appendonly.aof*.aof"):
            log.write_bytes(b"*1\r\n$8\r\nFLUSHALL\r\n")
        await fault.heal(servers, "redis")
        assert await remembered(servers) == ["one"]
        await through(servers, "crash")
        assert await remembered(servers) == ["one"]


async def test_what_is_not_kept_cannot_be_restarted_from(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", redis_options=NOTHING) as servers:
        assert "append-only file" in (ALL["restart_from_aof"].unavailable(servers, "redis") or "")
        assert "keeps nothing on disk" in (ALL["restart_from_rdb"].unavailable(servers, "redis") or "")
        await append(servers, "one")
        await through(servers, "shutdown_nosave")
        assert await remembered(servers) == []
