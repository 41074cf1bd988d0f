"""What this machine has and lacks for a soak, and what each lack means."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import msgspec
from docker.errors import DockerException

from soak.browsing.chromium import PROGRAMS as CHROMIUM
from soak.errors import SoakError
from soak.proc.spawn import run
from soak.servers import binaries, unprivileged, web_process
from soak.servers.ports import free_port, is_free
from soak.servers.power_cut.fsync_shim import COMPILERS
from soak.servers.power_cut.loopback_volume import no_disks
from soak.settings import SoakSettings

DISK_BYTES_MIN = 1_000_000_000
OPEN_FILES_MIN = 1_024
_PROGRAM_SECONDS_MAX = 10.0
_DOCKER_SECONDS_MAX = 3
_DOCKER_API = "1.41"
_DOCKER_SOCKET = Path("/var/run/docker.sock")


class MachineCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked for: there or not, needed or not, and what its lack would mean."""

    name: str
    present: bool
    needed: bool
    found: str
    meaning: str


def examine(settings: SoakSettings) -> list[MachineCheck]:
    """Look at everything a soak can use here. Nothing is changed, nothing is started."""
    return [
        *_python(),
        *_servers(settings),
        *_machine(settings),
        *_optional(),
    ]


def lacks_something_needed(findings: list[MachineCheck]) -> bool:
    return any(finding.needed and not finding.present for finding in findings)


def _python() -> Iterator[MachineCheck]:
    version = platform.python_version()
    yield MachineCheck(
        name="python",
        present=sys.version_info >= (3, 11),
        needed=True,
        found=f"{version} ({sys.executable})",
        meaning="soak needs Python 3.11 or later",
    )


def _servers(settings: SoakSettings) -> Iterator[MachineCheck]:
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


def _server(name: str, locate: Callable[[], Path], *, needed: bool, use: str) -> MachineCheck:
    try:
        path = locate()
        version = _version(path)
    except SoakError as error:
        path, version = None, str(error)
    return MachineCheck(
        name=name,
        present=path is not None and version is not None,
        needed=needed,
        found=version or f"{path} does not run",
        meaning=f"no {use} without it; give the address of a server that runs instead",
    )


def _version(program: Path | str) -> str | None:
    try:
        done = run([program, "--version"], seconds_max=_PROGRAM_SECONDS_MAX)
    except OSError:  # which a timeout is, too
        return None
    said = re.search(r"(?:v=|\b)(\d+\.\d+(?:\.\d+)*)", done.output + done.errors)
    return said[1] if said else None


def _machine(settings: SoakSettings) -> Iterator[MachineCheck]:
    yield _data_folder(settings.data_dir)
    yield _disk(settings.data_dir)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield MachineCheck(
        name="open files",
        present=files >= OPEN_FILES_MIN or files == resource.RLIM_INFINITY,
        needed=False,
        found=f"at most {files} per process (ulimit -n)",
        meaning=f"with fewer than {OPEN_FILES_MIN} a large load runs out of connections",
    )
    yield _account()
    yield _ports(settings)
    cores = os.cpu_count() or 1
    yield MachineCheck(
        name="cores", present=cores >= 2, needed=False, found=str(cores), meaning="load and verifier share one core"
    )


def _data_folder(folder: Path) -> MachineCheck:
    existing = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            problem = ""
    except OSError as error:
        problem = f"{existing}: {error.strerror}"
    return MachineCheck(
        name="data folder",
        present=not problem,
        needed=True,
        found=problem or f"{folder.resolve()} can be written",
        meaning="nothing can be kept there; choose another folder with --data-dir",
    )


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest of its parents that exists."""
    return next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())


def _disk(folder: Path) -> MachineCheck:
    existing = _existing(folder)
    free = shutil.disk_usage(existing).free
    return MachineCheck(
        name="disk space",
        present=free >= DISK_BYTES_MIN,
        needed=False,
        found=f"{free / 1e9:.1f} GB free at {existing}",
        meaning=f"less than {DISK_BYTES_MIN / 1e9:.0f} GB fills up in a long soak",
    )


def _account() -> MachineCheck:
    try:
        other = unprivileged.unprivileged()
    except SoakError as error:
        return MachineCheck(
            name="account", present=False, needed=True, found=str(error), meaning="no embedded PostgreSQL"
        )
    found = (
        f"uid {os.geteuid()}" if other is None else f"root; PostgreSQL runs as {unprivileged.NAME} (uid {other.uid})"
    )
    return MachineCheck(
        name="account", present=True, needed=True, found=found, meaning="PostgreSQL refuses to run as root"
    )


def _ports(settings: SoakSettings) -> MachineCheck:
    port = settings.http.port
    taken = port != 0 and not is_free(port)
    return MachineCheck(
        name="ports",
        present=not taken,
        needed=True,
        found=f"{port} is taken" if taken else f"{port} and others are free, such as {free_port()}",
        meaning="soak run cannot serve /metrics there; choose another with --port (0: any free one)",
    )


def _optional() -> Iterator[MachineCheck]:
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
        yield MachineCheck(name=name, present=path is not None, needed=False, found=shown, meaning=meaning)
    yield _chroma()
    reason = no_disks()
    yield MachineCheck(
        name="own file systems",
        present=reason is None,
        needed=False,
        found=reason or "root, loop devices and mkfs.ext4",
        meaning="no power cuts in Docker, and none by file system (testbed.power_cut = filesystem)",
    )
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    yield MachineCheck(
        name="libfaketime",
        present=library is not None,
        needed=False,
        found=str(library or "not found"),
        meaning="clock faults are unavailable",
    )


def _chroma() -> MachineCheck:
    found = web_process.chroma_is_installed()
    return MachineCheck(
        name="chroma",
        present=found,
        needed=False,
        found=web_process.CHROMA_PACKAGE if found else "not installed yet",
        meaning="installed when --store chroma first needs it, which takes a package index; or give servers.chroma",
    )


def _docker() -> MachineCheck:
    version = _docker_version()
    return MachineCheck(
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
