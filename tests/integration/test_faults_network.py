"""What happens between clients and server, which itself is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
import redis
from breaking import client_of, running, sql

from soak.faults import ALL
from soak.faults.dropped_reply import DroppedReply

if TYPE_CHECKING:
    from pathlib import Path


async def test_nobody_reaches_a_server_in_an_outage(tmp_path: Path) -> None:
    outage = ALL["outage"]
    async with running(tmp_path, "redis", "postgres", proxied=True) as bed:
        async with client_of(bed.servers["redis"].url) as client:
            await client.set("kept", "yes")
            await outage.inject(bed, "redis")
            await outage.inject(bed, "redis")
            with pytest.raises(redis.ConnectionError):
                await client.get("kept")
            assert await sql(bed.servers["postgres"].url, "select 1") == 1
            # The server itself is well, and supervision does not depend on the network in front of it.
            assert await bed.telemetry("redis")
            await outage.heal(bed, "redis")
            await outage.heal(bed, "redis")
            assert await client.get("kept") == "yes"
        await outage.inject(bed, "postgres")
        with pytest.raises(ConnectionRefusedError):
            await sql(bed.servers["postgres"].url, "select 1")
        await outage.heal(bed, "postgres")
        assert await sql(bed.servers["postgres"].url, "select 1") == 1


async def test_writes_whose_reply_is_dropped_are_there(tmp_path: Path) -> None:
    dropped = DroppedReply(one_in=3)
    async with running(tmp_path, "redis", "postgres", proxied=True) as bed:
        await dropped.inject(bed, "redis")
        unknown = 0
        async with client_of(bed.servers["redis"].url) as client:
            for number in range(9):
                try:
                    await client.rpush("session", number)
                except redis.ConnectionError:
                    unknown += 1
            await dropped.heal(bed, "redis")
            for number in range(9, 12):
                await client.rpush("session", number)
            assert await client.lrange("session", 0, -1) == [str(number) for number in range(12)]
        assert unknown == 3
        url = bed.servers["postgres"].url
        await sql(url, "create table told (value int)")
        await dropped.inject(bed, "postgres")
        unknown = 0
        for number in range(6):
            try:
                await sql(url, f"insert into told values ({number})")  # noqa: S608  a number
            except (asyncpg.PostgresConnectionError, ConnectionError):
                unknown += 1
        await dropped.heal(bed, "postgres")
        assert await sql(url, "select array_agg(value order by value) from told") == list(range(6))
        assert unknown == 2
