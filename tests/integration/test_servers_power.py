"""What is left after a power cut: exactly what was synced."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from soak.errors import ServerUnreachableError, UsageError
from soak.servers import power_cut
from soak.servers.local import LocalServers
from soak.servers.power_cut import CutPower
from soak.servers.power_cut.fsync_shim import BLOCK_BYTES, FsyncShim
from tests.support.servers.breaking import client_of, running, sql

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return power_cut.build(tmp_path_factory.mktemp("library"))


class Machine:
    """A disk, and programs that run on it until the power is cut."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.supply = FsyncShim(folder / "power", self.disk, library)

    def run(self, program: str) -> CutPower:
        """Run a program on the disk and cut the power when it has ended, without having synced any more."""
        environment = self.supply.turn_on()
        subprocess.run(
            [sys.executable, "-S", "-c", f"import os\n{program}"],
            cwd=self.disk,
            env={**os.environ, **environment},
            check=True,
        )
        assert self.supply.is_on
        return self.supply.cut()

    def content(self, name: str) -> bytes:
        return (self.disk / name).read_bytes()

    def holds(self, name: str, content: bytes) -> None:
        (self.disk / name).write_bytes(content)


@pytest.fixture
def machine(tmp_path: Path, library: Path) -> Machine:
    return Machine(tmp_path, library)


def test_what_was_appended_is_kept_up_to_the_last_sync(machine: Machine) -> None:
    machine.holds("log", b"old")
    cut = machine.run(
        "fd = os.open('log', os.O_WRONLY | os.O_APPEND)\n"
        "os.write(fd, b' synced')\nos.fdatasync(fd)\nos.writev(fd, [b' not', b' synced'])"
    )
    assert machine.content("log") == b"old synced"
    assert cut == CutPower(files=1, bytes_cut=11, blocks_restored=0)
    cut = machine.run("fd = os.open('log', os.O_WRONLY | os.O_APPEND)\nos.write(fd, b' lost')")
    assert machine.content("log") == b"old synced"
    assert cut == CutPower(files=1, bytes_cut=5, blocks_restored=0)


def test_what_was_overwritten_is_as_at_the_last_sync(machine: Machine) -> None:
    machine.holds("data", b"a" * 3 * BLOCK_BYTES)
    machine.run(
        "fd = os.open('data', os.O_RDWR)\n"
        "os.pwrite(fd, b'synced', 10)\nos.fsync(fd)\n"
        "os.pwrite(fd, b'lost', 12)\nos.pwrite(fd, b'twice', 11)\n"
        f"os.pwritev(fd, [b'x' * 9, b'y' * {BLOCK_BYTES}], 8000)\n"
        "os.lseek(fd, 20000, 0)\nos.write(fd, b'z' * 10000)"
    )
    expected = bytearray(b"a" * 3 * BLOCK_BYTES)
    expected[10:16] = b"synced"
    assert machine.content("data") == expected


def test_a_file_open_for_writing_only_is_put_back_too(machine: Machine) -> None:
    machine.holds("data", b"a" * 100)
    machine.run("fd = os.open('data', os.O_WRONLY)\nos.write(fd, b'lost')")
    assert machine.content("data") == b"a" * 100


def test_what_was_cut_off_and_not_synced_is_back(machine: Machine) -> None:
    machine.holds("one", b"abc" * BLOCK_BYTES)
    machine.holds("two", b"abc" * BLOCK_BYTES)
    machine.holds("three", b"abc" * BLOCK_BYTES)
    machine.run(
        "fd = os.open('one', os.O_RDWR)\nos.ftruncate(fd, 5)\nos.write(fd, b'x')\n"
        "os.truncate('two', 0)\n"
        "fd = os.open('three', os.O_RDWR)\nos.ftruncate(fd, 5)\nos.fsync(fd)"
    )
    assert machine.content("one") == machine.content("two") == b"abc" * BLOCK_BYTES
    assert machine.content("three") == b"abcab"


def test_a_new_file_is_empty_unless_it_was_synced(machine: Machine) -> None:
    machine.run(
        "fd = os.open('new', os.O_WRONLY | os.O_CREAT)\nos.write(fd, b'lost')\n"
        "fd = os.open('safe', os.O_WRONLY | os.O_CREAT)\nos.write(fd, b'kept')\nos.fsync(fd)\n"
        "fd = os.open('direct', os.O_WRONLY | os.O_CREAT | os.O_DSYNC)\nos.write(fd, b'kept')"
    )
    assert [machine.content(name) for name in ("new", "safe", "direct")] == [b"", b"kept", b"kept"]


def test_a_renamed_file_takes_its_state_along_and_ends_the_one_it_replaces(machine: Machine) -> None:
    machine.holds("manifest", b"old manifest, the longer one")
    machine.holds("moved", b"was there")
    machine.run(
        "fd = os.open('temp', os.O_WRONLY | os.O_CREAT)\nos.write(fd, b'new')\nos.fsync(fd)\n"
        "os.write(fd, b' lost')\nos.rename('temp', 'manifest')\nos.rename('moved', 'elsewhere')\n"
        "os.rename('elsewhere', 'elsewhere')"
    )
    assert machine.content("manifest") == b"new"
    assert machine.content("elsewhere") == b"was there"


def test_a_file_that_takes_the_place_of_a_removed_one_inherits_nothing(machine: Machine) -> None:
    machine.holds("old", b"on disk since the start")
    # Filesystems give a number out again at once, or do not; either way nothing of these was synced.
    machine.run(
        "fd = os.open('old', os.O_WRONLY)\nos.write(fd, b'and synced again')\nos.fsync(fd)\nos.close(fd)\n"
        "os.unlink('old')\n"
        "for number in range(50):\n"
        "    fd = os.open(f'new-{number}', os.O_WRONLY | os.O_CREAT)\n    os.write(fd, b'lost')\n    os.close(fd)\n"
        "    if number % 2:\n        os.unlink(f'new-{number}')\n"
    )
    assert {path.read_bytes() for path in machine.disk.iterdir()} == {b""}


def test_a_child_shares_its_parents_states(machine: Machine) -> None:
    machine.holds("data", b"a" * 100)
    machine.run(
        "fd = os.open('data', os.O_RDWR)\nos.write(fd, b'parent')\n"
        "if os.fork() == 0:\n    os.pwrite(fd, b'child', 50)\n    os.fsync(fd)\n    os._exit(0)\n"
        "os.wait()\nos.pwrite(fd, b'lost', 0)"
    )
    assert machine.content("data") == b"parent" + b"a" * 44 + b"child" + b"a" * 45


def test_untouched_files_and_those_of_earlier_cuts_are_left_alone(machine: Machine) -> None:
    machine.holds("still", b"here")
    machine.run("fd = os.open('log', os.O_WRONLY | os.O_CREAT)\nos.write(fd, b'one')\nos.fsync(fd)")
    machine.run("fd = os.open('log', os.O_WRONLY | os.O_APPEND)\nos.write(fd, b' lost')")
    machine.run("pass")
    assert (machine.content("still"), machine.content("log")) == (b"here", b"one")


def test_a_file_whose_old_content_could_not_be_kept_is_not_put_back_wrongly(machine: Machine) -> None:
    machine.holds("data", b"a" * 100)
    inode = (machine.disk / "data").stat().st_ino
    with pytest.raises(ServerUnreachableError, match="could not be kept"):
        machine.run(
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "fd = os.open('data', os.O_RDWR)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\nos.write(fd, b'changed')"
        )
    assert (machine.disk.parent / "power" / str(inode)).exists()


async def test_servers_start_without_power_cuts_where_there_is_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soak.servers.power_cut.fsync_shim.COMPILERS", ())
    async with running(tmp_path, "redis", power_cuts=True) as servers:
        assert servers.no_power_cuts == (
            "no power cuts: no C compiler; install one (gcc or clang) or choose other faults"
        )
        with pytest.raises(UsageError, match="start it with power cuts"):
            await servers.nodes["redis"].cut_power()
        async with client_of(servers.nodes["redis"].url) as client:
            assert await client.ping()


def test_a_compiler_that_fails_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'shim.c:1: error: the moon is full' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("soak.servers.power_cut.fsync_shim.COMPILERS", (str(broken),))
    with pytest.raises(UsageError, match="error: the moon is full") as caught:
        power_cut.build(tmp_path)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["cc"]


async def test_a_shim_that_is_not_loaded_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bogus = tmp_path / "bogus.so"
    bogus.write_text("no library")
    monkeypatch.setattr(power_cut, "build", lambda _folder: bogus)
    with pytest.raises(ServerUnreachableError, match="the shim was not loaded"):
        await LocalServers(tmp_path / "servers", power_cuts=True).start(["redis"])


async def test_the_ledger_is_never_under_the_shim(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", "ledger", power_cuts=True) as servers:
        assert servers.nodes["redis"].power is not None
        assert servers.nodes["ledger"].power is None


async def test_postgres_data_closed_to_its_user_survive_a_cut_elsewhere(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    async with running(closed, "postgres", power_cuts=True) as servers:
        server = servers.nodes["postgres"]
        await sql(server.url, "create table kept as select 7 as value")
        await server.cut_power()
        await server.start_again()
        assert await sql(server.url, "select value from kept") == 7
