"""What happens to the data itself: it expires, rots, is cut, or lives in a time that leaps."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import asyncpg
import pytest

from soak.errors import UsageError
from soak.faults import ALL, Fault
from soak.faults.clock_step import ClockStep
from soak.faults.ttl_change import TtlChange
from tests.support.servers.breaking import PATIENCE_SECONDS, client_of, running, sql

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers import LocalTestbed

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

FLAVOURS = ["valkey", "redis"]
MESSAGES = [f"message {number}: {'x' * 40}" for number in range(200)]


async def fill(bed: LocalTestbed) -> None:
    async with client_of(bed.servers["redis"].url) as client:
        for message in MESSAGES:
            await client.rpush("session", message)


async def remembered(bed: LocalTestbed) -> list[str]:
    async with client_of(bed.servers["redis"].url) as client:
        found: list[str] = await client.lrange("session", 0, -1)
        return found


async def happen(fault: Fault, bed: LocalTestbed, target: str = "redis") -> None:
    assert fault.unavailable(bed, target) is None
    await fault.inject(bed, target)
    await fault.heal(bed, target)
    pid = bed.servers[target].pid
    await fault.heal(bed, target)
    assert bed.servers[target].pid == pid


# -- keys expire --


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_keys_of_the_run_expire_and_those_of_others_stay(tmp_path: Path, flavour: str) -> None:
    change = TtlChange(seconds=0.3)
    async with running(tmp_path, "redis", redis_version=flavour) as bed:
        assert "namespace" in (change.unavailable(bed, "redis") or "")
        bed.namespace = "so*k"
        async with client_of(bed.servers["redis"].url) as client:
            await client.mset({"so*k:list:a": "1", "so*k:list:b": "1", "soak:list:c": "1", "so*kd:list": "1"})
            await client.pexpire("so*k:list:b", 50)
            await happen(change, bed)
            assert sorted(await client.keys()) == ["so*kd:list", "soak:list:c"]
            assert await client.ttl("soak:list:c") == -1
            deadline = time.monotonic() + PATIENCE_SECONDS
            while int((await bed.telemetry("redis"))["expired_keys"]) < 2:  # they are counted when they are removed
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)


# -- files rot --


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_redis_reads_rotten_messages_as_if_nothing_were_wrong(tmp_path: Path, flavour: str) -> None:
    async with running(tmp_path, "redis", redis_version=flavour) as bed:
        await fill(bed)
        await happen(ALL["file_corruption"], bed)
        found = await remembered(bed)
    assert len(found) == len(MESSAGES)
    changed = [number for number, message in enumerate(MESSAGES) if found[number] != message]
    assert changed == [196, 197, 198, 199]


async def test_nothing_is_changed_where_there_is_no_message(tmp_path: Path) -> None:
    async with running(tmp_path, "redis") as bed:
        for name in ("file_corruption", "aof_truncation"):
            with pytest.raises(UsageError, match="found no"):
                await ALL[name].inject(bed, "redis")
            await ALL[name].heal(bed, "redis")
        await fill(bed)
        assert await remembered(bed) == MESSAGES


@pytest.mark.parametrize("version", [16, 18])
async def test_a_postgres_with_checksums_refuses_a_rotten_page_and_one_without_does_not(
    tmp_path: Path, version: int
) -> None:
    async with running(tmp_path, "postgres", postgres_version=version) as bed:
        url = bed.servers["postgres"].url
        await sql(url, "create table told as select n, repeat('x', 100) as value from generate_series(1, 200) n")
        checks = await sql(url, "select current_setting('data_checksums')")
        await happen(ALL["file_corruption"], bed, "postgres")
        spoiled = "select count(*) from told where value <> repeat('x', 100)"
        assert (checks == "on") == (version == 18)
        if checks == "on":
            with pytest.raises(asyncpg.DataCorruptedError):
                await sql(url, spoiled)
        else:
            assert await sql(url, spoiled) == 4


# -- files are cut --


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_redis_begins_with_what_is_left_of_its_append_only_file(tmp_path: Path, flavour: str) -> None:
    async with running(tmp_path, "redis", redis_version=flavour) as bed:
        await fill(bed)
        await happen(ALL["aof_truncation"], bed)
        found = await remembered(bed)
    assert 0 < len(found) < len(MESSAGES)
    assert found == MESSAGES[: len(found)]


# -- the clock --


def clock() -> ClockStep:
    fault = ClockStep()
    if fault.library() is None:
        if os.environ.get("SOAK_REQUIRE_ALL") == "1":
            pytest.fail("libfaketime is not installed")
        pytest.skip("libfaketime is not installed")
    return fault


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_redis_whose_clock_leaps_ahead_expires_keys_early(tmp_path: Path, flavour: str) -> None:
    fault = clock()
    async with running(tmp_path, "redis", redis_version=flavour) as bed:
        async with client_of(bed.servers["redis"].url) as client:
            await client.set("soon", "1", ex=600)
            await client.set("late", "1", ex=7200)
        await fault.inject(bed, "redis")
        async with client_of(bed.servers["redis"].url) as client:
            assert (await client.time())[0] - time.time() > 3000
            assert (await client.exists("soon"), await client.exists("late")) == (0, 1)
        await fault.heal(bed, "redis")
        await fault.heal(bed, "redis")
        async with client_of(bed.servers["redis"].url) as client:
            assert abs((await client.time())[0] - time.time()) < 60
            assert (await client.exists("soon"), await client.exists("late")) == (0, 1)


async def test_a_postgres_whose_clock_leaps_ahead_keeps_its_rows(tmp_path: Path) -> None:
    fault = clock()
    async with running(tmp_path, "postgres") as bed:
        url = bed.servers["postgres"].url
        await sql(url, "create table told as select now() as at")
        await fault.inject(bed, "postgres")
        assert await sql(url, "select now() - at > interval '50 minutes' from told") is True
        await fault.heal(bed, "postgres")
        assert await sql(url, "select abs(extract(epoch from now() - at)) < 600 from told") is True


async def test_without_libfaketime_or_under_the_shim_no_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, "redis", power_cuts=True) as bed:
        assert "shim" in (ClockStep(library=tmp_path).unavailable(bed, "redis") or "")
        monkeypatch.setattr("soak.faults.clock_step._ROOTS", ())
        assert "apt install libfaketime" in (ClockStep().unavailable(bed, "redis") or "")
        with pytest.raises(UsageError, match="not installed"):
            await ClockStep().inject(bed, "redis")
