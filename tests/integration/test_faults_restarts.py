"""Ways to end a server and bring it back: what is there afterwards is what the way it ended had kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.errors import ServerUnreachableError
from soak.faults import ALL
from tests.support.servers.breaking import client_of, running

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers import LocalTestbed

AOF = {"appendonly": "yes", "save": ""}
RDB = {"appendonly": "no", "save": "900 1"}
BOTH = {"appendonly": "yes", "save": "900 1"}
NOTHING = {"appendonly": "no", "save": ""}
FLAVOURS = ["valkey", "redis"]


async def append(bed: LocalTestbed, *values: str) -> None:
    async with client_of(bed.servers["redis"].url) as client:
        await client.rpush("session", *values)


async def remembered(bed: LocalTestbed) -> list[str]:
    async with client_of(bed.servers["redis"].url) as client:
        found: list[str] = await client.lrange("session", 0, -1)
        return found


async def through(bed: LocalTestbed, name: str) -> None:
    """Let a fault that takes the server down happen, and heal it twice."""
    fault = ALL[name]
    assert fault.unavailable(bed, "redis") is None
    await fault.inject(bed, "redis")
    with pytest.raises(ServerUnreachableError):
        await bed.telemetry("redis")
    await fault.heal(bed, "redis")
    pid = bed.servers["redis"].pid
    await fault.heal(bed, "redis")
    assert bed.servers["redis"].pid == pid


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("options", [AOF, BOTH])
@pytest.mark.parametrize("name", ["restart_from_aof", "restart_from_rdb", "shutdown_nosave"])
async def test_a_server_with_an_append_only_file_loses_nothing(
    tmp_path: Path, name: str, options: dict[str, str], flavour: str
) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=options) as bed:
        await append(bed, "one")
        await through(bed, name)
        assert await remembered(bed) == ["one"]
        found = await bed.servers["redis"].read_configuration()
        assert (found["appendonly"], found["save"]) == ("yes", options["save"])
        # What comes after it is as safe as before.
        await append(bed, "two")
        await through(bed, "crash")
        assert await remembered(bed) == ["one", "two"]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("name", "left"), [("restart_from_rdb", ["one", "two"]), ("shutdown_nosave", ["one"])])
async def test_a_server_with_snapshots_alone_loses_what_came_after_the_last_unless_it_saves_as_it_ends(
    tmp_path: Path, name: str, left: list[str], flavour: str
) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=RDB) as bed:
        await append(bed, "one")
        async with client_of(bed.servers["redis"].url) as client:
            await client.save()
        await append(bed, "two")
        await through(bed, name)
        assert await remembered(bed) == left


async def test_a_move_by_snapshot_reads_the_snapshot_and_not_the_append_only_file(tmp_path: Path) -> None:
    fault = ALL["restart_from_rdb"]
    async with running(tmp_path, "redis") as bed:
        await append(bed, "one")
        await fault.inject(bed, "redis")
        for log in bed.servers["redis"].working_folder.rglob("appendonly.aof*.aof"):
            log.write_bytes(b"*1\r\n$8\r\nFLUSHALL\r\n")
        await fault.heal(bed, "redis")
        assert await remembered(bed) == ["one"]
        await through(bed, "crash")
        assert await remembered(bed) == ["one"]


async def test_what_is_not_kept_cannot_be_restarted_from(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", redis_options=NOTHING) as bed:
        assert "append-only file" in (ALL["restart_from_aof"].unavailable(bed, "redis") or "")
        assert "keeps nothing on disk" in (ALL["restart_from_rdb"].unavailable(bed, "redis") or "")
        await append(bed, "one")
        await through(bed, "shutdown_nosave")
        assert await remembered(bed) == []
