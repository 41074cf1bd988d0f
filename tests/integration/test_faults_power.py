"""A power cut takes what was not synced from real servers, and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from soak.faults import ALL
from tests.support.servers.breaking import client_of, running, sql
from tests.support.servers.power import broken_while_writing, lose_the_last_moments, until_synced

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

POWER_CUT = ALL["power_cut"]


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_a_file_synced_every_second_loses_the_last_moments_and_only_those(tmp_path: Path, flavour: str) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, power_cuts=True) as bed:
        await lose_the_last_moments(bed)


async def test_a_crash_alone_loses_nothing_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", power_cuts=True) as servers:
        broken = await broken_while_writing(servers, "redis", "crash")
        assert broken.lost == []


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_a_file_synced_always_loses_nothing(tmp_path: Path, flavour: str) -> None:
    options = {"appendfsync": "always"}
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=options, power_cuts=True) as servers:
        broken = await broken_while_writing(servers, "redis", "power_cut")
        assert broken.lost == []


async def test_postgres_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", power_cuts=True) as servers:
        broken = await broken_while_writing(servers, "postgres", "power_cut")
        assert broken.lost == []


async def test_postgres_that_does_not_sync_loses_everything_since_it_started(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", postgres_options={"fsync": "off"}, power_cuts=True) as servers:
        server = servers.nodes["postgres"]
        await sql(server.url, "create table session (writer int, number int)")
        cut = await server.cut_power()
        assert cut is not None
        assert cut.blocks_restored > 0
        await server.start_again()
        assert await sql(server.url, "select to_regclass('session') is null")


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_a_snapshot_is_there_and_what_came_after_it_is_not(tmp_path: Path, flavour: str) -> None:
    options = {"appendonly": "no", "save": "900 1"}
    async with running(tmp_path, "redis", redis_version=flavour, redis_options=options, power_cuts=True) as servers:
        url = servers.nodes["redis"].url
        async with client_of(url) as client:
            await client.set("before", "yes")
            await client.save()
            await client.set("after", "yes")
        await POWER_CUT.inject(servers, "redis")
        await POWER_CUT.heal(servers, "redis")
        async with client_of(url) as client:
            assert await client.keys() == ["before"]


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_a_rewritten_file_is_whole_after_a_cut(tmp_path: Path, flavour: str) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, power_cuts=True) as servers:
        url = servers.nodes["redis"].url
        async with client_of(url) as client:
            for number in range(200):
                await client.rpush("session", number)
            await client.bgrewriteaof()
            while (await client.info("persistence"))["aof_rewrite_in_progress"]:
                await client.rpush("meanwhile", "x")
                await asyncio.sleep(0.01)
        await until_synced(url)
        await POWER_CUT.inject(servers, "redis")
        await POWER_CUT.heal(servers, "redis")
        async with client_of(url) as client:
            assert await client.lrange("session", 0, -1) == [str(number) for number in range(200)]


async def test_healing_twice_changes_nothing_and_without_the_shim_it_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path / "with", "redis", power_cuts=True) as servers:
        assert POWER_CUT.unavailable(servers, "redis") is None
        await POWER_CUT.inject(servers, "redis")
        await POWER_CUT.heal(servers, "redis")
        pid = servers.nodes["redis"].pid
        await POWER_CUT.heal(servers, "redis")
        assert servers.nodes["redis"].pid == pid
    async with running(tmp_path / "without", "redis") as servers:
        assert POWER_CUT.unavailable(servers, "redis") == "the servers were started without power cuts"
