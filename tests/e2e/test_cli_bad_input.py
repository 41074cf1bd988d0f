"""What is wrong outside the command line itself: each gets its exit code and one line, never a traceback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.errors import ExitCode
from soak.proc.lock import DataFolderLock
from soak.servers import binaries
from soak.servers.ports import free_port
from tests.support.command import soak, the_one_line

SECONDS_MAX = 60


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="soak-e2e-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def guarded_redis(folder: Path) -> Iterator[int]:
    """Run a Redis that wants a password."""
    port = free_port()
    log = (folder / "guarded.log").open("wb")
    server = subprocess.Popen(
        [binaries.valkey_server(), "--port", str(port), "--bind", "127.0.0.1", "--requirepass", "right", "--save", ""],
        cwd=folder,
        stdout=log,
    )
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield port
    finally:
        server.kill()
        server.wait()
        log.close()


def test_a_malformed_file_is_one_line_with_its_place(folder: Path) -> None:
    (folder / "soak.toml").write_text("[load]\nusers = = 3\n")
    line = the_one_line(soak("run", cwd=folder), ExitCode.USAGE)
    assert "soak.toml line 2, column 9: not valid TOML" in line


def test_an_unknown_variable_is_one_line(folder: Path) -> None:
    line = the_one_line(soak("run", cwd=folder, SOAK_LOAD__USRES="5"), ExitCode.USAGE)
    assert "environment SOAK_LOAD__USRES: load.usres is not a setting; did you mean load.users?" in line


def test_a_server_that_cannot_be_reached_is_one_line(folder: Path) -> None:
    words = ("check", "--store", "redis-list", "--redis", f"redis://127.0.0.1:{free_port()}", "--keep")
    done = soak(*words, cwd=folder, TMPDIR=str(folder))
    assert "cannot be used" in the_one_line(done, ExitCode.UNREACHABLE)
    assert "is held to" not in done.stdout, "nothing is promised of a server that nobody has reached"
    assert "data folder" not in done.stdout
    assert list(folder.glob("soak-check-*")) == []


def test_a_ledger_that_cannot_be_reached_is_one_line(folder: Path) -> None:
    words = ("run", "--store", "redis-list", "--port", "0", "--ledger", f"redis://127.0.0.1:{free_port()}")
    line = the_one_line(soak(*words, cwd=folder), ExitCode.UNREACHABLE)
    assert "ledger" in line


def test_a_wrong_password_is_one_line_that_does_not_tell_it(folder: Path, guarded_redis: int) -> None:
    address = f"redis://:hunter2@127.0.0.1:{guarded_redis}/0"
    done = soak("run", "--store", "redis-list", "--port", "0", cwd=folder, SOAK_SERVERS__REDIS=address)
    line = the_one_line(done, ExitCode.UNREACHABLE)
    assert "refuses the login" in line
    assert "hunter2" not in done.stderr + done.stdout


@pytest.fixture
def empty_cluster(folder: Path) -> Iterator[int]:
    """Run one node of a cluster that has no slots yet."""
    port, bus = free_port(), free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", str(bus)]
    with (folder / "cluster.log").open("wb") as log:
        server = subprocess.Popen([binaries.valkey_server(), *words, "--save", ""], cwd=folder, stdout=log)
    try:
        yield port
    finally:
        server.kill()
        server.wait()


def test_a_cluster_that_is_down_is_one_line(folder: Path, empty_cluster: int) -> None:
    url = f"redis+cluster://127.0.0.1:{empty_cluster}"
    done = soak("check", "--redis", url, "--store", "redis-list", "--plain", cwd=folder)
    assert "cannot be used (the cluster is down: none of its nodes" in the_one_line(done, ExitCode.UNREACHABLE)


def test_a_port_that_is_taken_is_one_line_that_names_it(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = the_one_line(soak("run", "--store", "redis-list", "--port", port, cwd=folder), ExitCode.USAGE)
    assert f"port {port} on 127.0.0.1 is taken; choose another with --port" in line


def test_two_daemons_on_one_data_folder_are_one_line_for_the_second(folder: Path) -> None:
    with DataFolderLock(folder / "data"):
        line = the_one_line(soak("run", "--data-dir", "data", "--port", "0", cwd=folder), ExitCode.USAGE)
    assert "is in use by process" in line
    assert "--data-dir" in line


def test_a_read_only_data_folder_is_one_line(folder: Path) -> None:
    # The one place where even root cannot write.
    line = the_one_line(soak("run", "--data-dir", "/proc/soak", "--port", "0", cwd=folder), ExitCode.USAGE)
    assert "the data folder /proc/soak cannot be written" in line


def test_a_store_that_lacks_a_method_is_one_line(folder: Path) -> None:
    (folder / "forgetful.py").write_text(
        "class Store:\n    async def append(self, session, message): ...\n    async def close(self): ...\n"
    )
    line = the_one_line(soak("check", "--store", "forgetful:Store", cwd=folder), ExitCode.USAGE)
    assert "lacks methods history, forget" in line


def test_a_ledger_without_a_run_is_one_line_for_the_sidecar(folder: Path, ledger_url: str) -> None:
    words = ("verify", "--ledger", ledger_url, "--run", "rnowhere", "--redis", "redis://127.0.0.1:1")
    line = the_one_line(soak(*words, cwd=folder), ExitCode.USAGE)
    assert "the ledger holds" in line
