"""A temporary folder goes with its owner, and if that was killed, when the next one comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from soak.servers.temporary import TemporaryFolder

PAUSED = """
import asyncio, sys
from soak.servers.local import LocalServers
from soak.servers.temporary import TemporaryFolder

async def main():
    servers = LocalServers(TemporaryFolder("soak-t-").path)
    await servers.start(["redis"])
    server = servers.nodes["redis"]
    await server.pause()
    print(server.pid, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""

HOLD = """
import sys
from soak.servers.temporary import TemporaryFolder
print(TemporaryFolder("soak-t-").path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def started(program: str, place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_is_open_to_servers_and_is_removed() -> None:
    folder = TemporaryFolder("soak-t-")
    assert folder.path.stat().st_mode & 0o777 == 0o755
    folder.remove()
    assert not folder.path.exists()


def test_one_in_use_stays_and_one_whose_owner_was_killed_is_removed_by_the_next(place: Path) -> None:
    owner = started(HOLD, place)
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        theirs = Path(owner.stdout.readline().strip())
        (theirs / "data").mkdir()
        TemporaryFolder("soak-t-").remove()
        assert theirs.exists()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    TemporaryFolder("soak-t-").remove()
    assert not theirs.exists()


def test_a_server_that_was_paused_when_its_owner_was_killed_ends_with_the_folder(place: Path) -> None:
    owner = started(PAUSED, place)
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        server = psutil.Process(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    TemporaryFolder("soak-t-").remove()
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def test_what_is_new_and_not_locked_yet_or_has_another_name_stays(place: Path) -> None:
    new, other = place / "soak-t-new", place / "soak-check-x"
    new.mkdir()
    other.mkdir()
    TemporaryFolder("soak-t-").remove()
    assert new.exists()
    assert other.exists()
    os.utime(new, (0, 0))
    TemporaryFolder("soak-t-").remove()
    assert not new.exists()


def test_folders_made_at_the_same_time_are_not_taken_for_abandoned() -> None:
    def make_and_remove(_: int) -> bool:
        folder = TemporaryFolder("soak-t-")
        is_there = folder.path.exists()
        folder.remove()
        return is_there

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(make_and_remove, range(400)))
