"""What this machine has and lacks for a soak, and what each lack means."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import msgspec
from docker.errors import DockerException

from soak.browsing.chromium import PROGRAMS as CHROMIUM
from soak.errors import SoakError
from soak.servers import account, binaries, chroma_process
from soak.servers.ports import free_port, is_free
from soak.servers.power_cut.compiling import COMPILERS
from soak.servers.power_cut.loopback_volume import no_disks
from soak.settings import SoakSettings

DISK_BYTES_MIN = 1_000_000_000
OPEN_FILES_MIN = 1_024
_PROGRAM_SECONDS_MAX = 10.0
_DOCKER_SECONDS_MAX = 3
_DOCKER_API = "1.41"
_DOCKER_SOCKET = Path("/var/run/docker.sock")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked for: there or not, needed or not, and what its lack would mean."""

    name: str
    present: bool
    needed: bool
    found: str
    meaning: str


def examine(settings: SoakSettings) -> list[Finding]:
    """Look at everything a soak can use here. Nothing is changed, nothing is started."""
    return [
        *_python(),
        *_servers(settings),
        *_machine(settings),
        *_optional(),
    ]


def lacks_something_needed(findings: list[Finding]) -> bool:
    return any(finding.needed and not finding.present for finding in findings)


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding(
        name="python",
        present=sys.version_info >= (3, 11),
        needed=True,
        found=f"{version} ({sys.executable})",
        meaning="soak needs Python 3.11 or later",
    )


def _servers(settings: SoakSettings) -> Iterator[Finding]:
    redis, postgres, ledger = settings.servers.redis, settings.servers.postgres, settings.ledger.url
    yield _server(
        "valkey", binaries.valkey_server, needed=redis is None or ledger is None, use="Redis stores and the ledger"
    )
    yield _server("redis 6.2", binaries.redis_server, needed=False, use="--redis 6.2")
    for version, needed in ((16, False), (18, postgres is None)):
        yield _server(
            f"postgres {version}",
            lambda version=version: binaries.postgres_folder(version) / "bin" / "postgres",  # type: ignore[misc]
            needed=needed,
            use=f"embedded PostgreSQL {version}",
        )


def _server(name: str, locate: Callable[[], Path], *, needed: bool, use: str) -> Finding:
    try:
        path = locate()
        version = _version(path)
    except SoakError as error:
        path, version = None, str(error)
    return Finding(
        name=name,
        present=path is not None and version is not None,
        needed=needed,
        found=version or f"{path} does not run",
        meaning=f"no {use} without it; give the address of a server that runs instead",
    )


def _version(program: Path | str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  a program we found ourselves
            [str(program), "--version"], capture_output=True, text=True, timeout=_PROGRAM_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r"(?:v=|\b)(\d+\.\d+(?:\.\d+)*)", done.stdout + done.stderr)
    return said[1] if said else None


def _machine(settings: SoakSettings) -> Iterator[Finding]:
    yield _data_folder(settings.data_dir)
    yield _disk(settings.data_dir)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield Finding(
        name="open files",
        present=files >= OPEN_FILES_MIN or files == resource.RLIM_INFINITY,
        needed=False,
        found=f"at most {files} per process (ulimit -n)",
        meaning=f"with fewer than {OPEN_FILES_MIN} a large load runs out of connections",
    )
    yield _account()
    yield _ports(settings)
    cores = os.cpu_count() or 1
    yield Finding(
        name="cores", present=cores >= 2, needed=False, found=str(cores), meaning="load and verifier share one core"
    )


def _data_folder(folder: Path) -> Finding:
    existing = folder.resolve()
    while not existing.exists():
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            problem = ""
    except OSError as error:
        problem = f"{existing}: {error.strerror}"
    return Finding(
        name="data folder",
        present=not problem,
        needed=True,
        found=problem or f"{folder.resolve()} can be written",
        meaning="nothing can be kept there; choose another folder with --data-dir",
    )


def _disk(folder: Path) -> Finding:
    existing = folder.resolve()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    return Finding(
        name="disk space",
        present=free >= DISK_BYTES_MIN,
        needed=False,
        found=f"{free / 1e9:.1f} GB free at {existing}",
        meaning=f"less than {DISK_BYTES_MIN / 1e9:.0f} GB fills up in a long soak",
    )


def _account() -> Finding:
    try:
        other = account.unprivileged()
    except SoakError as error:
        return Finding(name="account", present=False, needed=True, found=str(error), meaning="no embedded PostgreSQL")
    found = f"uid {os.geteuid()}" if other is None else f"root; PostgreSQL runs as {account.NAME} (uid {other.uid})"
    return Finding(name="account", present=True, needed=True, found=found, meaning="PostgreSQL refuses to run as root")


def _ports(settings: SoakSettings) -> Finding:
    port = settings.http.port
    taken = port != 0 and not is_free(port)
    return Finding(
        name="ports",
        present=not taken,
        needed=True,
        found=f"{port} is taken" if taken else f"{port} and others are free, such as {free_port()}",
        meaning="soak run cannot serve /metrics there; choose another with --port (0: any free one)",
    )


def _optional() -> Iterator[Finding]:
    yield _docker()
    for name, programs, meaning in (
        ("promtool", ("promtool",), "alert rules and metrics are not checked by Prometheus itself"),
        ("chromium", CHROMIUM, "no --browser-users, and pages are not tested in a browser"),
        (
            "C compiler",
            COMPILERS,
            "no power cuts: 'soak selftest' cannot plant the flaws that need one; install gcc or clang",
        ),
    ):
        path = next((found for program in programs if (found := shutil.which(program))), None)
        version = _version(path) if path else None
        shown = f"{path} {version or ''}".strip() if path else "not found"
        yield Finding(name=name, present=path is not None, needed=False, found=shown, meaning=meaning)
    yield _chroma()
    reason = no_disks()
    yield Finding(
        name="own file systems",
        present=reason is None,
        needed=False,
        found=reason or "root, loop devices and mkfs.ext4",
        meaning="no power cuts in Docker, and none by file system (testbed.power_cut = filesystem)",
    )
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    yield Finding(
        name="libfaketime",
        present=library is not None,
        needed=False,
        found=str(library or "not found"),
        meaning="clock faults are unavailable",
    )


def _chroma() -> Finding:
    found = chroma_process.is_installed()
    return Finding(
        name="chroma",
        present=found,
        needed=False,
        found=chroma_process.PACKAGE if found else "not installed yet",
        meaning="installed when --store chroma first needs it, which takes a package index; or give servers.chroma",
    )


def _docker() -> Finding:
    version = _docker_version()
    return Finding(
        name="docker",
        present=version is not None,
        needed=False,
        found="no engine answers" if version is None else f"engine {version}",
        meaning="no --testbed docker, and no --soak-servers=docker for pytest; nothing else needs it",
    )


def _docker_version() -> str | None:
    if "DOCKER_HOST" not in os.environ and not _DOCKER_SOCKET.exists():
        return None
    try:
        # With a version given it does not connect before it is asked to, and can be closed whatever happens.
        client = docker.from_env(version=_DOCKER_API, timeout=_DOCKER_SECONDS_MAX)
        try:
            # Newer engines refuse older versions, except to this question.
            return str(client.version(api_version=False)["Version"])
        finally:
            client.close()
    except (DockerException, OSError):
        return None
