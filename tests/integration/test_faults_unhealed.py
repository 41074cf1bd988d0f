"""A daemon that is killed in the middle of a fault leaves nothing behind that the next start does not heal."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from soak.errors import UsageError
from soak.faults import ALL, heal_leftovers
from soak.faults.eviction import Eviction
from soak.faults.healing import FILE_NAME, Notes
from soak.proc.tree import is_same_process
from soak.servers.local import PIDS_NAME
from soak.servers.postgres import PostgresServer
from soak.servers.power_cut import DiskTrouble, FsyncShim
from tests.support.paths import ROOT
from tests.support.servers import doomed_owner
from tests.support.servers.breaking import client_of, running, sql, until
from tests.support.servers.doomed_owner import READY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soak.servers.local import LocalServers

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

READY_SECONDS_MAX = 120.0
SHIM: dict[str, Any] = {"power_cuts": True}
OLDER: dict[str, Any] = {"postgres_version": 16}
PROXIED: dict[str, Any] = {"proxied": True}
NOTHING: Mapping[str, Any] = MappingProxyType({})
PAIR = ("postgres", "postgres-replica")


class Doomed(NamedTuple):
    """A fault in the middle of which its owner is killed."""

    name: str
    target: str
    options: Mapping[str, Any] = NOTHING
    stop_at: str = ""
    """A function that is never left; nothing: killed while the fault is held."""


SHORT = [
    Doomed("crash", "redis"),
    Doomed("pause", "redis"),
    Doomed("eviction", "redis"),
    Doomed("connection_exhaustion", "redis"),
    Doomed("partition", "redis", PROXIED),
    Doomed("ttl_change", "redis"),
    Doomed("disk_full", "redis", SHIM),
    Doomed("fsync_error", "redis", SHIM),
    Doomed("slow_fsync", "redis", SHIM),
    Doomed("power_cut", "redis", SHIM),
    Doomed("restart_from_rdb", "redis"),
    Doomed("upgrade", "redis", {"redis_version": "redis"}),
    Doomed("downgrade", "redis"),
    Doomed("replica_lag", "postgres-replica"),
]
LONG = [
    Doomed("upgrade", "postgres", OLDER),
    Doomed("upgrade", "postgres", OLDER, stop_at="soak.servers.postgres_process.exchange_folders"),
    Doomed("pause", "postgres"),
    Doomed("fsync_error", "postgres", SHIM),
    Doomed("failover", "postgres"),
    Doomed("failover", "postgres", stop_at="soak.faults.failover.exchange_folders"),
    Doomed("failover", "postgres", stop_at="soak.faults.failover._promote"),
    Doomed("early_failover", "postgres", stop_at="soak.faults.failover._promote"),
]


async def prepare(folder: Path, doomed: Doomed) -> None:
    """Let the servers be there with something in them before they are broken."""
    kinds = PAIR if doomed.target.startswith("postgres") else ("redis",)
    async with running(folder, *kinds, **doomed.options) as servers:
        if "postgres" in servers.nodes:
            await sql(servers.nodes["postgres"].url, "create table told as select 'kept' as value")
        else:
            async with client_of(servers.nodes["redis"].url) as client:
                await client.rpush("session", "kept")


def kill_in_the_middle(folder: Path, doomed: Doomed) -> None:
    options = json.dumps(dict(doomed.options))
    command = [
        sys.executable,
        "-m",
        doomed_owner.__name__,
        str(folder),
        doomed.name,
        doomed.target,
        options,
        doomed.stop_at,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as owner:
        patience = threading.Timer(READY_SECONDS_MAX, owner.kill)
        patience.start()
        try:
            assert owner.stdout
            assert owner.stdout.readline().strip() == READY
        finally:
            patience.cancel()
            owner.kill()


async def works(servers: LocalServers, doomed: Doomed) -> None:
    """Check that the servers take writes and remember what they were told before, unless the fault is about that."""
    if "postgres" in servers.nodes:
        url = servers.nodes["postgres"].url
        await sql(url, "insert into told values ('new')")
        assert await sql(url, "select array_agg(value order by value) from told") == ["kept", "new"]
        async with asyncio.timeout(READY_SECONDS_MAX):
            while await sql(servers.nodes["postgres-replica"].url, "select count(*) from told") != 2:
                await asyncio.sleep(0.02)
    else:
        async with client_of(servers.nodes["redis"].url) as client:
            await client.rpush("session", "new")
            kept = [] if doomed.name in {"downgrade", "eviction"} else ["kept"]
            assert await client.lrange("session", 0, -1) == [*kept, "new"]
            assert (await client.config_get("maxmemory"))["maxmemory"] == "0"
            assert int((await client.config_get("maxclients"))["maxclients"]) > 1_000
            assert (await client.config_get("appendonly"))["appendonly"] == "yes"
    supply = servers.nodes[doomed.target].power
    assert not isinstance(supply, FsyncShim) or supply.trouble == DiskTrouble()


@pytest.mark.parametrize(
    "doomed",
    [*SHORT, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)],
    ids=lambda one: "-".join(part for part in (one.name, one.target, one.stop_at.rpartition(".")[2]) if part),
)
async def test_the_next_start_heals_what_a_killed_owner_left(tmp_path: Path, doomed: Doomed) -> None:
    await prepare(tmp_path, doomed)
    await asyncio.to_thread(kill_in_the_middle, tmp_path, doomed)
    kinds = PAIR if doomed.target.startswith("postgres") else ("redis",)
    async with running(tmp_path, *kinds, **doomed.options) as servers:
        assert [note.fault for note in await heal_leftovers(servers)] == [doomed.name]
        assert await heal_leftovers(servers) == []
        await works(servers, doomed)
        if doomed.name.endswith("failover"):
            primary = servers.nodes["postgres"]
            assert isinstance(primary, PostgresServer)
            assert not (primary.working_folder / "standby.signal").exists()


@pytest.mark.parametrize("target", ["redis", "postgres"])
async def test_a_server_that_was_paused_ends_with_its_killed_owner_and_not_only_with_the_next(
    tmp_path: Path, target: str
) -> None:
    doomed = Doomed("pause", target)
    await prepare(tmp_path, doomed)
    await asyncio.to_thread(kill_in_the_middle, tmp_path, doomed)
    started = json.loads((tmp_path / "servers" / PIDS_NAME).read_text())["servers"]
    assert target in started
    await until(lambda: not any(is_same_process(one["pid"], one["created_seconds"]) for one in started.values()))
    async with running(tmp_path, *(PAIR if target == "postgres" else (target,))) as servers:
        await heal_leftovers(servers)
        await works(servers, doomed)


async def test_settings_of_a_server_that_lived_on_are_put_back_from_the_notes(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", redis_options={"maxmemory": "512mb"}) as servers:
        await Eviction().inject(servers, "redis")
        await ALL["connection_exhaustion"].inject(servers, "redis")
        assert {note.fault for note in Notes(servers.nodes["redis"]).all()} == {"eviction", "connection_exhaustion"}
        healed = await heal_leftovers(servers)
        assert {(note.fault, note.target) for note in healed} == {
            ("eviction", "redis"),
            ("connection_exhaustion", "redis"),
        }
        async with client_of(servers.nodes["redis"].url) as client:
            assert (await client.config_get("maxmemory"))["maxmemory"] == str(512 * 2**20)
            assert (await client.config_get("maxmemory-policy"))["maxmemory-policy"] == "noeviction"


async def test_notes_that_nobody_can_act_on_stop_the_start(tmp_path: Path) -> None:
    async with running(tmp_path, "redis") as servers:
        server = servers.nodes["redis"]
        Notes(server).begin("a fault of tomorrow")
        with pytest.raises(UsageError, match="does not know"):
            await heal_leftovers(servers)
        file = server.folder / FILE_NAME
        whole = file.read_bytes()
        for damaged in (b"torn", b"", whole[: len(whole) // 2], whole.replace(b"tomorrow", b"tomorroW")):
            file.write_bytes(damaged)
            with pytest.raises(UsageError, match="cannot be read"):
                await heal_leftovers(servers)
        file.unlink()
        await heal_leftovers(servers)
