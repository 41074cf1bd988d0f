"""Disks of servers' own: what is left on one after its power was cut, and that none is ever left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soak import cli
from soak.errors import ExitCode, ServerUnreachableError, UsageError
from soak.faults import ALL
from soak.servers.local import LocalServers
from soak.servers.power_cut import LoopbackVolume, loopback_volume, loops
from soak.servers.server import LifecycleEvent
from tests.support.servers.breaking import PATIENCE_SECONDS, client_of, running, sql, until
from tests.support.servers.disks import append_zeros, left_of
from tests.support.servers.power import broken_while_writing, lose_the_last_moments, until_synced

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_disks")]

POWER_CUT = ALL["power_cut"]
BY_FILE_SYSTEM: dict[str, Any] = {"power_cuts": True, "power_cut_by": "filesystem", "disk_size": "256m"}
SIZE = 64 * 2**20
NEIGHBOUR_ROUNDS_MAX = 12

OWNER = """
import asyncio, sys
from pathlib import Path
from soak.servers.local import LocalServers

async def main():
    servers = LocalServers(Path(sys.argv[1]), power_cuts=True, power_cut_by="filesystem", disk_size="256m")
    print((await servers.start(["redis"]))["redis"], flush=True)
    if sys.argv[2] == "paused":
        await servers.nodes["redis"].pause()
        print("paused", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder of which nothing may be left mounted or attached."""
    yield tmp_path
    assert left_of(tmp_path) == []


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[LoopbackVolume]:
    found = LoopbackVolume(folder / "disk", SIZE)
    found.open()
    try:
        yield found
    finally:
        found.close()


def cut(found: LoopbackVolume) -> None:
    found.cut(found.mount_point)
    found.unmount()


# The disk itself -------------------------------------------------------------------------------------------


def test_what_was_synced_is_there_after_a_cut_and_what_was_not_is_gone(folder: Path) -> None:
    with opened(folder) as found:
        place = found.mount()
        with (place / "synced").open("wb") as file:
            file.write(b"kept")
            file.flush()
            os.fsync(file.fileno())
        (place / "not synced").write_bytes(b"lost" * 10_000)
        assert not found.was_cut
        cut(found)
        assert found.was_cut
        assert (found.mount() / "synced").read_bytes() == b"kept"
        assert not (place / "not synced").exists()


def test_an_unmounted_disk_loses_nothing_and_only_its_own_folder_is_cut(folder: Path) -> None:
    with opened(folder) as found:
        (found.mount() / "not synced").write_bytes(b"kept")
        found.unmount()
        assert left_of(folder) == []
        assert (found.mount() / "not synced").read_bytes() == b"kept"
        with pytest.raises(ServerUnreachableError, match="is not on the disk"):
            found.cut(folder)
        assert not found.was_cut


def test_a_disk_is_no_larger_than_it_may_be_and_takes_only_what_is_written(folder: Path) -> None:
    with opened(folder) as found:
        assert found.image.stat().st_size == SIZE
        assert found.image.stat().st_blocks * 512 < SIZE // 4
        with pytest.raises(OSError, match="No space left"), (found.mount() / "large").open("wb") as file:
            file.write(b"x" * 2 * SIZE)


def test_two_cannot_use_one_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_volume, "_LOCK_SECONDS_MAX", 0.1)
    with opened(folder), pytest.raises(UsageError, match="in use by another process"):
        LoopbackVolume(folder / "disk", SIZE).open()


def test_one_that_somebody_keeps_open_is_unmounted_all_the_same_in_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "_UNMOUNT_SECONDS_MAX", 0.2)
    with opened(folder) as found:
        (found.mount() / "held").write_bytes(b"kept")
        with (found.mount_point / "held").open("rb"):
            with pytest.raises(ServerUnreachableError, match="cannot be unmounted"):
                found.unmount()
            found.close()
            assert not os.path.ismount(found.mount_point)
        loops.until_released(found.image)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("os.geteuid", lambda: 1000, "only root may mount one"),
        ("soak.servers.power_cut.loops.PROGRAMS", ("mkfs.nonsense",), "mkfs.nonsense is not here"),
        ("soak.servers.power_cut.loopback_volume._LOOP_CONTROL", Path("/nowhere"), "no loop devices"),
    ],
)
async def test_where_there_can_be_no_disk_servers_run_without_and_the_fault_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, complaint: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(name, value)
        async with running(folder, "redis", **BY_FILE_SYSTEM) as servers:
            assert complaint in str(POWER_CUT.unavailable(servers, "redis"))
            with pytest.raises(UsageError, match="cannot be cut"):
                await servers.nodes["redis"].cut_power()


# Servers on it ---------------------------------------------------------------------------------------------


async def test_a_file_synced_every_second_loses_the_last_moments_and_only_those(folder: Path) -> None:
    async with running(folder, "redis", "ledger", **BY_FILE_SYSTEM) as bed:
        assert POWER_CUT.unavailable(bed, "redis") is None
        assert bed.nodes["ledger"].power is None
        assert "testbed.power_cut = shim" in str(ALL["disk_full"].unavailable(bed, "redis"))
        await lose_the_last_moments(bed)


@pytest.mark.parametrize(
    ("kind", "options"), [("redis", {"redis_options": {"appendfsync": "always"}}), ("postgres", {})]
)
async def test_what_syncs_before_it_answers_loses_nothing(folder: Path, kind: str, options: dict[str, Any]) -> None:
    async with running(folder, kind, **BY_FILE_SYSTEM, **options) as servers:
        broken = await broken_while_writing(servers, kind, "power_cut")
        assert broken.lost == []


async def test_a_crash_alone_loses_nothing_and_a_wiped_volume_everything(folder: Path) -> None:
    async with running(folder, "redis", **BY_FILE_SYSTEM) as servers:
        broken = await broken_while_writing(servers, "redis", "crash")
        assert broken.lost == []
        await ALL["wiped_volume"].inject(servers, "redis")
        await ALL["wiped_volume"].heal(servers, "redis")
        async with client_of(servers.nodes["redis"].url) as client:
            assert await client.keys() == []


async def test_a_neighbours_sync_before_the_cut_leaves_zeros_that_the_server_refuses_and_it_comes_back_repaired(
    folder: Path,
) -> None:
    """Show what production knows: the journal has the new length of the file, and nothing has its new bytes."""
    events: list[LifecycleEvent] = []
    servers = LocalServers(folder, on_event=events.append, **BY_FILE_SYSTEM)
    try:
        url = (await servers.start(["redis"]))["redis"]
        async with client_of(url) as client:
            await client.set("kept", "yes")
        await until_synced(url)
        for _ in range(NEIGHBOUR_ROUNDS_MAX):
            await broken_while_writing(servers, "redis", "power_cut", first=lambda: sync_beside(servers))
            async with client_of(url) as client:
                assert await client.get("kept") == "yes"
            if events:
                break
        assert [event.what for event in events] == ["repaired"]
        assert "refused to start after the power cut" in events[0].detail
    finally:
        await servers.stop()


async def sync_beside(servers: LocalServers) -> None:
    """Let somebody else sync a file of theirs on the same disk, the server standing still."""
    server = servers.nodes["redis"]
    await server.pause()
    assert isinstance(server.power, LoopbackVolume)
    with (server.power.mount_point / "neighbour").open("ab") as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


async def test_zeros_at_the_end_of_a_file_after_a_cut_are_refused_cut_off_and_told(folder: Path) -> None:
    events: list[LifecycleEvent] = []
    servers = LocalServers(folder, on_event=events.append, **BY_FILE_SYSTEM)
    try:
        url = (await servers.start(["redis"]))["redis"]
        server = servers.nodes["redis"]
        async with client_of(url) as client:
            await client.rpush("session", "kept")
        await until_synced(url)
        await POWER_CUT.inject(servers, "redis")
        append_zeros(server.power)
        await POWER_CUT.heal(servers, "redis")
        async with client_of(url) as client:
            assert await client.lrange("session", 0, -1) == ["kept"]
        assert [event.what for event in events] == ["repaired"]
        assert "the last 3000 bytes of appendonly.aof.1.incr.aof were zeros" in events[0].detail
        assert "In production it stays down until somebody does that" in events[0].detail
        # Nobody cuts anything off where no power was cut: this would be a finding.
        await server.kill()
        append_zeros(server.power)
        with pytest.raises(ServerUnreachableError, match="check-aof"):
            await server.start_again()
        assert [event.what for event in events] == ["repaired"]
    finally:
        await servers.stop()


async def test_data_stays_where_it_was_begun(folder: Path) -> None:
    on_disk, elsewhere = folder / "disk", folder / "elsewhere"
    for place, options in ((on_disk, BY_FILE_SYSTEM), (elsewhere, {})):
        async with running(place, "redis", **options) as servers, client_of(servers.nodes["redis"].url) as client:
            await client.set("kept", "yes")
    for place, options in ((on_disk, {}), (elsewhere, BY_FILE_SYSTEM)):
        async with running(place, "redis", **options) as servers:
            async with client_of(servers.nodes["redis"].url) as client:
                assert await client.get("kept") == "yes"
            reason = POWER_CUT.unavailable(servers, "redis")
            assert (place == on_disk) == (reason is None)
    assert "was begun without a disk" in str(reason)


async def test_a_replica_on_a_disk_of_its_own_survives_a_cut_and_cannot_change_places_with_its_primary(
    folder: Path,
) -> None:
    async with running(folder, "postgres-replica", **BY_FILE_SYSTEM) as servers:
        assert "cannot change places" in str(ALL["failover"].unavailable(servers, "postgres"))
        await sql(servers.nodes["postgres"].url, "create table kept as select 7 as value")
        await POWER_CUT.inject(servers, "postgres-replica")
        await POWER_CUT.heal(servers, "postgres-replica")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await sql(servers.nodes["postgres-replica"].url, "select to_regclass('kept') is null"):
                await asyncio.sleep(0.05)


async def test_postgres_has_its_disk_also_where_its_user_may_not_enter_the_data_folder(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for _ in range(2):
        async with running(closed, "postgres", **BY_FILE_SYSTEM) as servers:
            server = servers.nodes["postgres"]
            await sql(server.url, "create table if not exists kept as select 7 as value")
            await server.cut_power()
            await server.start_again()
            assert await sql(server.url, "select value from kept") == 7


# Nothing is left -------------------------------------------------------------------------------------------


async def test_nothing_is_left_when_a_start_fails(folder: Path) -> None:
    servers = LocalServers(folder, redis_options={"nonsense": "yes"}, **BY_FILE_SYSTEM)
    with pytest.raises(ServerUnreachableError, match="ended while starting"):
        await servers.start(["redis"])
    assert left_of(folder) == []


@contextlib.contextmanager
def killed_owner(folder: Path, how: str = "") -> Iterator[str]:
    """Run a server from another process, and kill that."""
    with subprocess.Popen([sys.executable, "-c", OWNER, str(folder), how], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        url = owner.stdout.readline().strip()
        if how:
            assert owner.stdout.readline().strip() == how
        loops.release_abandoned()
        assert len(left_of(folder)) == 1, "its owner lives"
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    yield url


async def test_what_a_killed_owner_left_is_found_by_the_next_start_in_its_folder(folder: Path) -> None:
    with killed_owner(folder) as url:
        async with running(folder, "redis", **BY_FILE_SYSTEM) as servers:
            assert servers.nodes["redis"].url == url
            assert POWER_CUT.unavailable(servers, "redis") is None


async def test_or_released_by_a_start_in_any_other_folder_and_its_paused_server_ended(folder: Path) -> None:
    with killed_owner(folder / "mine", "paused"):
        async with running(folder / "other", "redis"):
            assert left_of(folder) == []
    async with running(folder / "mine", "redis", **BY_FILE_SYSTEM) as servers:
        assert POWER_CUT.unavailable(servers, "redis") is None


async def test_or_by_the_command_for_it_also_where_the_folder_is_gone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with killed_owner(folder / "mine"):
        shutil.rmtree(folder / "mine")
        assert await asyncio.to_thread(cli.main, ["clean", "--leftovers"]) == ExitCode.PASS
        assert "disks: " in capsys.readouterr().out
        await until(lambda: left_of(folder) == [])
