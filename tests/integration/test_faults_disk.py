"""A disk that is slow, fails or is full: what servers do then, and that nothing they acknowledged is gone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import asyncpg
import pytest
import redis

from soak.faults import ALL
from soak.faults.fsync_error import FsyncError
from soak.faults.slow_fsync import SlowFsync
from soak.servers import power_cut
from soak.servers.local import LocalServers
from soak.servers.power_cut import DiskTrouble, FsyncShim
from soak.servers.server import LifecycleEvent
from tests.support.servers.breaking import PATIENCE_SECONDS, client_of, running, sql, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

ALWAYS = {"appendfsync": "always"}


@contextlib.asynccontextmanager
async def dying(folder: Path, kind: str, **options: object) -> AsyncIterator[tuple[LocalServers, list[LifecycleEvent]]]:
    """Run a server that may end by itself, and say when it did."""
    events: list[LifecycleEvent] = []
    servers = LocalServers(folder, on_event=events.append, power_cuts=True, **options)  # type: ignore[arg-type]
    await servers.start([kind])
    try:
        yield servers, events
    finally:
        await servers.stop()


async def appended_until_refused(servers: LocalServers) -> tuple[int, redis.RedisError]:
    """Append until the server refuses; returns how many it had acknowledged, and what it said then."""
    acknowledged = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with client_of(servers.nodes["redis"].url) as client:
        while time.monotonic() < deadline:
            try:
                await client.rpush("session", acknowledged)
            except redis.RedisError as error:
                return acknowledged, error
            acknowledged += 1
            await asyncio.sleep(0.01)
    raise AssertionError("it went on acknowledging")


async def remembered(servers: LocalServers) -> int:
    async with client_of(servers.nodes["redis"].url) as client:
        found: int = await client.llen("session")
        return found


async def test_who_waits_for_a_slow_disk_before_answering_answers_late(tmp_path: Path) -> None:
    slow = SlowFsync(delay="250ms")
    async with running(tmp_path, "redis", "postgres", redis_options=ALWAYS, power_cuts=True) as servers:
        await slow.inject(servers, "redis")
        await slow.inject(servers, "postgres")
        began = time.monotonic()
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "one")
        assert time.monotonic() - began >= 0.25
        began = time.monotonic()
        await sql(servers.nodes["postgres"].url, "create table told as select 1 as value")
        assert time.monotonic() - began >= 0.25
        for target in ("redis", "postgres"):
            await slow.heal(servers, target)
            await slow.heal(servers, target)
            supply = servers.nodes[target].power
            assert isinstance(supply, FsyncShim)
            assert supply.trouble == DiskTrouble()
        assert await remembered(servers) == 1


async def test_a_share_of_the_syncs_fails(tmp_path: Path) -> None:
    failing = FsyncError(share=0.5)
    async with dying(tmp_path, "redis", redis_options=ALWAYS) as (servers, events):
        supply = servers.nodes["redis"].power
        assert isinstance(supply, FsyncShim)
        await failing.inject(servers, "redis")
        assert supply.trouble == DiskTrouble(sync_error=errno.EIO, sync_errors_in_a_million=500_000)
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "the first of two syncs succeeds")
            # A Redis that syncs always ends at the first sync that fails.
            with pytest.raises(redis.ConnectionError):
                await client.rpush("session", "the second fails")
        await failing.heal(servers, "redis")
        assert supply.trouble == DiskTrouble()
        assert await remembered(servers) >= 1
        assert events[0].what == "died"


async def test_a_redis_that_syncs_every_second_refuses_writes_while_its_disk_is_full(tmp_path: Path) -> None:
    full = ALL["disk_full"]
    async with running(tmp_path, "redis", power_cuts=True) as servers:
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "before")
        await full.inject(servers, "redis")
        acknowledged, refusal = await appended_until_refused(servers)
        assert "MISCONF" in str(refusal)
        await full.heal(servers, "redis")
        await full.heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "after")
        await ALL["crash"].inject(servers, "redis")
        await ALL["crash"].heal(servers, "redis")
        assert await remembered(servers) == acknowledged + 2


async def test_a_redis_that_syncs_always_ends_when_its_disk_is_full_and_has_lost_nothing(tmp_path: Path) -> None:
    async with dying(tmp_path, "redis", redis_options=ALWAYS) as (servers, events):
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "before")
        await ALL["disk_full"].inject(servers, "redis")
        acknowledged, _ = await appended_until_refused(servers)
        await ALL["disk_full"].heal(servers, "redis")
        assert acknowledged == 0
        assert await remembered(servers) >= 1
        assert events[0].what == "died"


async def test_postgres_refuses_rows_while_its_disk_is_full(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", power_cuts=True) as servers:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told as select 0 as number, repeat('x', 2000) as value")
        await ALL["disk_full"].inject(servers, "postgres")
        with pytest.raises(asyncpg.DiskFullError):
            await sql(url, "insert into told select n, repeat('x', 2000) from generate_series(1, 100) n")
        await ALL["disk_full"].heal(servers, "postgres")
        await sql(url, "insert into told select n, repeat('x', 2000) from generate_series(1, 100) n")
        assert await sql(url, "select count(*) from told") == 101


@pytest.mark.parametrize("options", [{}, ALWAYS], ids=["everysec", "always"])
async def test_valkey_acknowledges_nothing_more_when_it_cannot_sync(tmp_path: Path, options: dict[str, str]) -> None:
    async with dying(tmp_path, "redis", redis_options=options) as (servers, _):
        await ALL["fsync_error"].inject(servers, "redis")
        acknowledged, _ = await appended_until_refused(servers)
        await ALL["fsync_error"].heal(servers, "redis")
        await ALL["fsync_error"].heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "after")
        assert await remembered(servers) >= acknowledged + 1


async def test_a_disk_that_the_first_try_had_mended_is_not_all_that_is_healed_by_the_second(tmp_path: Path) -> None:
    async with dying(tmp_path, "redis") as (servers, _):
        await ALL["fsync_error"].inject(servers, "redis")
        acknowledged, refusal = await appended_until_refused(servers)
        assert "MISCONF" in str(refusal)
        supply = servers.nodes["redis"].power
        assert isinstance(supply, FsyncShim)
        supply.inject_io_errors(DiskTrouble())  # so far the first try came
        await ALL["fsync_error"].heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "after")
        assert await remembered(servers) >= acknowledged + 1


async def test_postgres_ends_when_it_cannot_sync_and_recovers_what_it_had_acknowledged(tmp_path: Path) -> None:
    async with dying(tmp_path, "postgres") as (servers, _):
        url = servers.nodes["postgres"].url
        await sql(url, "create table told as select 1 as value")
        await ALL["fsync_error"].inject(servers, "postgres")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await sql(url, "insert into told values (2)")
        await ALL["fsync_error"].heal(servers, "postgres")
        await sql(url, "insert into told values (3)")
        assert await sql(url, "select count(*) from told where value <> 2") == 2


async def test_postgres_whose_recovery_fails_by_the_same_disk_serves_again_when_that_is_mended(tmp_path: Path) -> None:
    """Show the worst of it: some versions neither recover nor end then, and have to be restarted."""
    async with dying(tmp_path, "postgres") as (servers, _):
        server = servers.nodes["postgres"]
        await sql(server.url, "create table told as select 1 as value")
        await ALL["fsync_error"].inject(servers, "postgres")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await sql(server.url, "insert into told values (2)")
        await until(lambda: server.log_path.read_text(errors="replace").count("PANIC") >= 2)
        await ALL["fsync_error"].heal(servers, "postgres")
        await sql(server.url, "insert into told values (3)")
        assert await sql(server.url, "select count(*) from told where value <> 2") == 2


@pytest.mark.parametrize("name", ["disk_full", "slow_fsync", "fsync_error", "power_cut"])
async def test_without_the_shim_a_disk_cannot_misbehave(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, "redis") as servers:
        assert "the servers were started without power cuts" in (ALL[name].unavailable(servers, "redis") or "")


def test_a_cut_whose_owner_was_killed_in_the_middle_is_finished_by_the_next_start(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    supply = FsyncShim(tmp_path / "power", disk, power_cut.build(tmp_path))
    program = "import os\nfor name in 'ab':\n    os.write(os.open(name, os.O_CREAT | os.O_WRONLY), b'not synced')"
    environment = {**os.environ, **supply.turn_on()}
    subprocess.run([sys.executable, "-S", "-c", program], cwd=disk, env=environment, check=True)
    (disk / "a").write_bytes(b"")  # put back already
    (tmp_path / "power" / "cutting").touch()
    supply.turn_on()
    assert ((disk / "a").read_bytes(), (disk / "b").read_bytes()) == (b"", b"")
    assert not (tmp_path / "power" / "cutting").exists()
