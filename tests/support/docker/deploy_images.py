"""The images of the deployment for tests, made without a registry: soak's own by its Dockerfile, the others by hand."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import docker.errors

from soak.servers import binaries, versions
from tests.support.docker.server_images import Image, _readable
from tests.support.needs import installed
from tests.support.paths import ROOT

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator

IN_CONTEXT = (
    *("requirements.lock", "pyproject.toml", "README.md", "LICENSE", "locustfiles", "soak"),
    *(".dockerignore", "deploy/Dockerfile"),
)
SHELL_TOOLS = ("sh", "id", "mkdir", "chown", "cat")
RUNTIME_LIBRARIES = (
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libz.so.1",
    "librt.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "libutil.so.1",
)
_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "site-packages"}
DOWNLOAD_SECONDS_MAX = 300
BUILD_SECONDS_MAX = 900


def python_base() -> tuple[bytes, list[str]]:
    """Make what stands in for the official slim image: this machine's Python, a shell, and a few tools."""
    image = Image()
    program = Path(sys.executable).resolve()
    image.add(program, str(program).lstrip("/"))
    image.add_libraries(program)
    for library in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))):
        folder = Path(library)
        image.add(folder, str(folder).lstrip("/"), keep=_is_wanted)
        for module in folder.glob("lib-dynload/*.so"):
            image.add_libraries(module)
    wheels = Path("/usr/share/python-wheels")  # where Debian keeps the pip of new environments
    if wheels.is_dir():
        image.add(wheels, str(wheels).lstrip("/"))
    for tool in SHELL_TOOLS:
        path = Path(shutil.which(tool) or "/bin/sh")
        image.add(path.resolve(), f"bin/{tool}")
        image.add_libraries(path)
    image.add(Path(shutil.which("false") or "/bin/false").resolve(), "bin/false")
    image.add_named_libraries(*RUNTIME_LIBRARIES)
    for name in ("python", "python3"):
        image.link(f"usr/local/bin/{name}", str(program))
    image.text("etc/passwd", "root:x:0:0::/:/bin/sh\n")
    image.text("etc/group", "root:x:0:\n")
    image.folder("tmp", mode=0o1777)
    image.folder("dev/shm", mode=0o1777)
    return image.finished(), ["ENV PATH=/usr/local/bin:/usr/bin:/bin"]


def _is_wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = set(Path(member.name).parts)
    if parts & _LEFT_OUT or any(part.startswith("config-") for part in parts):
        return None
    return _readable(member)


def with_shell(programs: dict[str, Path], folder: str, *files: Path) -> tuple[bytes, list[str]]:
    """Make the image of a server: its programs by name, a shell for its health check, and a folder for its data."""
    image = Image()
    for name, path in {**programs, "sh": Path("/bin/sh")}.items():
        image.add(path.resolve(), f"bin/{name}")
        image.add_libraries(path)
    for path in files:
        image.add(path, str(path).lstrip("/"))
    image.text("etc/passwd", "root:x:0:0::/:/bin/sh\n")
    image.text("etc/group", "root:x:0:\n")
    for name in ("tmp", folder):
        image.folder(name, mode=0o1777)
    return image.finished(), ["ENV PATH=/bin", f"WORKDIR /{folder}", f'CMD ["{next(iter(programs))}"]']


def valkey() -> tuple[bytes, list[str]]:
    """Make Valkey, with a client of Redis under the name that health checks ask for."""
    client = binaries.redis_server().with_name("redis-cli")
    return with_shell({"valkey-server": binaries.redis_program(versions.VALKEY), "valkey-cli": client}, "data")


def prometheus() -> tuple[bytes, list[str]]:
    return with_shell({name: Path(installed(name)) for name in ("prometheus", "promtool")}, "prometheus")


def alertmanager() -> tuple[bytes, list[str]]:
    programs = {"alertmanager": Path(installed("prometheus-alertmanager")), "amtool": Path(installed("amtool"))}
    return with_shell(programs, "alertmanager", *Path("/usr/share/prometheus/alertmanager").glob("*.tmpl"))


@contextlib.contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Let one worker make an image and the others find it."""
    with (Path(tempfile.gettempdir()) / f"{name.replace(':', '-')}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def imported(engine: Any, name: str, archive: bytes, changes: list[str]) -> str:
    engine.api.import_image_from_data(archive, repository=name, tag="latest", changes=changes)
    return f"{name}:latest"


def build_soak(engine: Any, name: str, base: str) -> None:
    """Build the image by the Dockerfile that is shipped, from wheels that were downloaded before."""
    with tempfile.TemporaryDirectory(prefix="soak-image-") as folder:
        context = Path(folder)
        for path in IN_CONTEXT:
            target = context / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / path, target)
        (context / "secret.env").write_text("not for the image")
        download_wheels(context / "deploy" / "wheels")
        arguments = {"BASE": base, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "wheels", "REVISION": "tested"}
        # The first stage gets a name, too, or nobody could remove it.
        for stage in ("build", None):
            _build(engine, context, f"{name}-{stage}" if stage else name, stage, arguments)


def _build(engine: Any, context: Path, name: str, target: str | None, arguments: dict[str, str]) -> None:
    told = []
    for line in engine.api.build(
        path=str(context),
        dockerfile="deploy/Dockerfile",
        tag=name,
        target=target,
        buildargs=arguments,
        rm=True,
        forcerm=True,
        network_mode="none",
        decode=True,
    ):
        told.append(str(line.get("stream", line)))
        assert "error" not in line, "".join(told[-60:])


def download_wheels(folder: Path) -> None:
    words = ["-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    subprocess.run(
        [sys.executable, *words, "-r", str(ROOT / "requirements.lock"), "-d", str(folder)],
        check=True,
        capture_output=True,
        timeout=DOWNLOAD_SECONDS_MAX,
    )


class DeployImages:
    """Names of images, each made once for all workers of a test run, and removed when the last one is done."""

    def __init__(self, run: str) -> None:
        # While it installs packages the engine says nothing for a long time.
        self._engine: Any = docker.from_env(timeout=BUILD_SECONDS_MAX)
        self._run = run
        self._used: list[str] = []

    def soak(self) -> str:
        name = f"soak-test-deploy-{self._run}"
        with one_at_a_time(name):
            if not self._is_there(f"{name}:latest"):
                base = imported(self._engine, f"{name}-base", *python_base())
                build_soak(self._engine, name, base)
        self._used += [f"{name}:latest", f"{name}-build:latest", f"{name}-base:latest"]
        return f"{name}:latest"

    def made(self, kind: str, archive: bytes, changes: list[str]) -> str:
        name = f"soak-test-deploy-{kind}-{os.getpid()}"
        self._used.append(f"{name}:latest")
        return imported(self._engine, name, archive, changes)

    def remove(self) -> None:
        for name in self._used:
            # In use by another worker, which removes it itself, or removed by one.
            with contextlib.suppress(docker.errors.APIError):
                self._engine.images.remove(name, force=True)
        (Path(tempfile.gettempdir()) / f"soak-test-deploy-{self._run}.lock").unlink(missing_ok=True)
        self._engine.close()

    def _is_there(self, name: str) -> bool:
        try:
            self._engine.images.get(name)
        except docker.errors.ImageNotFound:
            return False
        return True
