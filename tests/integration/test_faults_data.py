"""What happens to the data itself: it expires, rots, is cut, or lives in a time that leaps."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import asyncpg
import pytest

from soak.errors import UsageError
from soak.faults import ALL, Fault
from soak.faults.clock_step import ClockStep
from soak.faults.parameters import Given
from soak.faults.ttl_change import TtlChange
from tests.support.needs import missing
from tests.support.servers.breaking import PATIENCE_SECONDS, client_of, running, sql

if TYPE_CHECKING:
    from pathlib import Path

    from soak.servers.local import LocalServers

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

FLAVOURS = ["valkey", "redis"]
MESSAGES = [f"message {number}: {'x' * 40}" for number in range(200)]


async def fill(servers: LocalServers) -> None:
    async with client_of(servers.nodes["redis"].url) as client:
        for message in MESSAGES:
            await client.rpush("session", message)


async def remembered(servers: LocalServers) -> list[str]:
    async with client_of(servers.nodes["redis"].url) as client:
        found: list[str] = await client.lrange("session", 0, -1)
        return found


async def happen(fault: Fault, servers: LocalServers, target: str = "redis") -> None:
    assert fault.unavailable(servers, target) is None
    await fault.inject(servers, target)
    await fault.heal(servers, target)
    pid = servers.nodes[target].pid
    await fault.heal(servers, target)
    assert servers.nodes[target].pid == pid


# -- keys expire --


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_keys_of_the_run_expire_and_those_of_others_stay(tmp_path: Path, flavour: str) -> None:
    change = TtlChange(ttl="300ms")
    async with running(tmp_path, "redis", redis_version=flavour) as servers:
        assert "namespace" in (change.unavailable(servers, "redis") or "")
        servers.namespace = "so*k"
        async with client_of(servers.nodes["redis"].url) as client:
            await client.mset({"so*k:list:a": "1", "so*k:list:b": "1", "soak:list:c": "1", "so*kd:list": "1"})
            await client.pexpire("so*k:list:b", 50)
            await happen(change, servers)
            assert sorted(await client.keys()) == ["so*kd:list", "soak:list:c"]
            assert await client.ttl("soak:list:c") == -1
            deadline = time.monotonic() + PATIENCE_SECONDS
            while int((await servers.telemetry("redis"))["expired_keys"]) < 2:  # they are counted when they are removed
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)


# -- files rot --


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_redis_reads_rotten_messages_as_if_nothing_were_wrong(tmp_path: Path, flavour: str) -> None:
    async with running(tmp_path, "redis", redis_version=flavour) as servers:
        await fill(servers)
        await happen(ALL["file_corruption"], servers)
        found = await remembered(servers)
    assert len(found) == len(MESSAGES)
    changed = [number for number, message in enumerate(MESSAGES) if found[number] != message]
    assert changed == [196, 197, 198, 199]


async def test_nothing_is_changed_where_there_is_no_message(tmp_path: Path) -> None:
    async with running(tmp_path, "redis") as servers:
        for name in ("file_corruption", "aof_truncation"):
            with pytest.raises(UsageError, match="found no"):
                await ALL[name].inject(servers, "redis")
            await ALL[name].heal(servers, "redis")
        await fill(servers)
        assert await remembered(servers) == MESSAGES


@pytest.mark.parametrize("version", [16, 18])
async def test_a_postgres_with_checksums_refuses_a_rotten_page_and_one_without_does_not(
    tmp_path: Path, version: int
) -> None:
    async with running(tmp_path, "postgres", postgres_version=version) as servers:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told as select n, repeat('x', 100) as value from generate_series(1, 200) n")
        checks = await sql(url, "select current_setting('data_checksums')")
        await happen(ALL["file_corruption"], servers, "postgres")
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
    async with running(tmp_path, "redis", redis_version=flavour) as servers:
        await fill(servers)
        await happen(ALL["aof_truncation"], servers)
        found = await remembered(servers)
    assert 0 < len(found) < len(MESSAGES)
    assert found == MESSAGES[: len(found)]


# -- the clock --


def clock(**given: Given) -> ClockStep:
    fault = ClockStep(**given)  # type: ignore[arg-type]  # the library is no parameter
    if fault.library() is None:
        missing("libfaketime is not installed")
    return fault


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_redis_whose_clock_leaps_ahead_expires_keys_early(tmp_path: Path, flavour: str) -> None:
    fault = clock()
    async with running(tmp_path, "redis", redis_version=flavour) as servers:
        async with client_of(servers.nodes["redis"].url) as client:
            await client.set("soon", "1", ex=600)
            await client.set("late", "1", ex=7200)
        await fault.inject(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            assert (await client.time())[0] - time.time() > 3000
            assert (await client.exists("soon"), await client.exists("late")) == (0, 1)
        await fault.heal(servers, "redis")
        await fault.heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            assert abs((await client.time())[0] - time.time()) < 60
            assert (await client.exists("soon"), await client.exists("late")) == (0, 1)


async def test_the_clock_of_a_redis_can_be_behind_by_a_step_of_its_own(tmp_path: Path) -> None:
    fault = clock(step="30m", direction="back")
    async with running(tmp_path, "redis") as servers:
        await fault.inject(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            assert 1_700 < time.time() - (await client.time())[0] < 1_900
        await fault.heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            assert abs((await client.time())[0] - time.time()) < 60


async def test_a_postgres_whose_clock_leaps_ahead_keeps_its_rows(tmp_path: Path) -> None:
    fault = clock()
    async with running(tmp_path, "postgres") as servers:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told as select now() as at")
        await fault.inject(servers, "postgres")
        assert await sql(url, "select now() - at > interval '50 minutes' from told") is True
        await fault.heal(servers, "postgres")
        assert await sql(url, "select abs(extract(epoch from now() - at)) < 600 from told") is True


async def test_without_libfaketime_or_under_the_shim_no_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, "redis", power_cuts=True) as servers:
        assert "shim" in (ClockStep(library=tmp_path).unavailable(servers, "redis") or "")
        monkeypatch.setattr("soak.faults.clock_step._ROOTS", ())
        assert "apt install libfaketime" in (ClockStep().unavailable(servers, "redis") or "")
        with pytest.raises(UsageError, match="not installed"):
            await ClockStep().inject(servers, "redis")
