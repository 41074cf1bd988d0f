"""Writers that go on while the power of their server fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import redis

from soak.faults import ALL
from tests.support.servers.breaking import client_of, sql

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from soak.servers.servers import Servers

ROUNDS_MAX = 4
WRITERS = 4
WRITING_SECONDS = 0.8
TWO_SYNCS_SECONDS = 2.2


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


async def lose_the_last_moments(bed: Servers) -> None:
    """Cut the power of a server that syncs each second: it loses what each writer wrote last, and nothing else."""
    url = bed.nodes["redis"].url
    for _ in range(ROUNDS_MAX):
        async with client_of(url) as client:
            await client.rpush("earlier", *range(50))
        await until_synced(url)
        broken = await broken_while_writing(bed, "redis", "power_cut")
        async with client_of(url) as client:
            assert await client.lrange("earlier", -50, -1) == [str(number) for number in range(50)]
        if broken.lost:  # hardly ever not: then the sync and the cut met
            break
    assert broken.lost
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
