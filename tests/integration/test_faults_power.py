"""A power cut takes what was not synced from real servers, and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import pytest
import redis
from breaking import client_of, running, sql

from soak.faults import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from soak.servers.servers import Servers

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

WRITERS = 4
WRITING_SECONDS = 0.8
TWO_SYNCS_SECONDS = 2.2
ROUNDS_MAX = 4
POWER_CUT = ALL["power_cut"]


class Acknowledged(NamedTuple):
    writer: int
    number: int


async def write_redis(url: str, writer: int, acknowledged: list[Acknowledged]) -> None:
    async with client_of(url) as client:
        try:
            for number in range(1_000_000):
                await client.rpush(f"session-{writer}", number)
                acknowledged.append(Acknowledged(writer, number))
        except redis.RedisError:
            pass


async def write_postgres(url: str, writer: int, acknowledged: list[Acknowledged]) -> None:
    connection = await asyncpg.connect(url)
    try:
        for number in range(1_000_000):
            await connection.execute("insert into session values ($1, $2)", writer, number)
            acknowledged.append(Acknowledged(writer, number))
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        pass
    finally:
        connection.terminate()


async def read_redis(url: str) -> set[tuple[int, int]]:
    async with client_of(url) as client:
        return {
            (writer, int(number))
            for writer in range(WRITERS)
            for number in await client.lrange(f"session-{writer}", 0, -1)
        }


async def read_postgres(url: str) -> set[tuple[int, int]]:
    connection = await asyncpg.connect(url)
    try:
        return {(row[0], row[1]) for row in await connection.fetch("select writer, number from session")}
    finally:
        connection.terminate()


class Broken(NamedTuple):
    acknowledged: list[Acknowledged]
    lost: list[Acknowledged]


async def broken_while_writing(
    servers: Servers, target: str, name: str, first: Callable[[], Coroutine[None, None, None]] | None = None
) -> Broken:
    """Break a server in the middle of writes; returns which of those it had acknowledged it has lost."""
    write, read = _ways(target)
    url = servers.nodes[target].url
    if target == "postgres":
        await sql(url, "create table if not exists session (writer int, number int)")
        await sql(url, "delete from session")
    else:
        async with client_of(url) as client:
            await client.delete(*(f"session-{writer}" for writer in range(WRITERS)))
    acknowledged: list[Acknowledged] = []
    writing = [asyncio.create_task(write(url, writer, acknowledged)) for writer in range(WRITERS)]
    await asyncio.sleep(WRITING_SECONDS)
    if first is not None:
        await first()
    await ALL[name].inject(servers, target)
    await asyncio.gather(*writing)
    await ALL[name].heal(servers, target)
    found = await read(url)
    assert acknowledged
    return Broken(acknowledged, [one for one in acknowledged if (one.writer, one.number) not in found])


def _ways(
    target: str,
) -> tuple[
    Callable[[str, int, list[Acknowledged]], Coroutine[None, None, None]],
    Callable[[str], Coroutine[None, None, set[tuple[int, int]]]],
]:
    return (write_redis, read_redis) if target == "redis" else (write_postgres, read_postgres)


@pytest.mark.parametrize("flavour", ["valkey", "redis"])
async def test_a_file_synced_every_second_loses_the_last_moments_and_only_those(tmp_path: Path, flavour: str) -> None:
    async with running(tmp_path, "redis", redis_version=flavour, power_cuts=True) as servers:
        url = servers.nodes["redis"].url
        for _ in range(ROUNDS_MAX):
            async with client_of(url) as client:
                await client.rpush("earlier", *range(50))
            await until_synced(url)
            broken = await broken_while_writing(servers, "redis", "power_cut")
            async with client_of(url) as client:
                assert await client.lrange("earlier", -50, -1) == [str(number) for number in range(50)]
            if broken.lost:  # hardly ever not: then the sync and the cut met
                break
        assert broken.lost
        # All that was lost is what each writer wrote last.
        for writer in range(WRITERS):
            acknowledged = [one for one in broken.acknowledged if one.writer == writer]
            lost = [one for one in broken.lost if one.writer == writer]
            assert lost == acknowledged[len(acknowledged) - len(lost) :]


async def until_synced(url: str) -> None:
    """Wait until everything written so far is synced by a server that syncs each second."""
    await asyncio.sleep(TWO_SYNCS_SECONDS)
    async with client_of(url) as client:
        while int((await client.info("persistence"))["aof_pending_bio_fsync"]):
            await asyncio.sleep(0.05)


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
