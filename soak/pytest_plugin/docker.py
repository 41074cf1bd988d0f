"""Servers in Docker containers: the official images, or others by setting.

A container belongs to the test session whose process started it. It listens on a port of 127.0.0.1 that was chosen
once, because a port that Docker chooses changes with every start. It is removed at the end; what killed sessions left
behind is found by its labels and removed by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import psutil
from requests.exceptions import RequestException

from soak.errors import ServerUnreachableError
from soak.pytest_plugin import administration
from soak.pytest_plugin.server import SoakServer
from soak.testbed.ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soak.pytest_plugin.background import Background
    from soak.pytest_plugin.options import Choice
    from soak.pytest_plugin.versions import Version

LABEL = "soak.pytest"
OWNER_LABEL = f"{LABEL}.owner"
HOST_LABEL = f"{LABEL}.host"
READY_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 10
_CALL_SECONDS_MAX = 60
_POLL_SECONDS = 0.1
_ENGINE = "unix:///var/run/docker.sock"
_USER = "soak"
_FAILURES = (docker.errors.DockerException, RequestException, OSError)


class DockerServer(SoakServer):
    """One container with a server in it."""

    def __init__(self, kind: str, version: Version, background: Background, container: Any, url: str) -> None:
        super().__init__(kind, version, background)
        self._container = container
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    async def until_ready(self) -> None:
        """Wait until the server answers; raises `ServerUnreachableError` with its last words when it does not."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            # Whatever it is that does not work yet may work in a moment.
            with contextlib.suppress(Exception):
                await administration.count_connections(self.kind, self.url)
                return
            if await self._status() in ("exited", "dead"):
                break
            await asyncio.sleep(_POLL_SECONDS)
        words = await asyncio.to_thread(self._container.logs, tail=3)
        raise ServerUnreachableError(
            f"{self.version} in container {self._container.short_id} does not answer: "
            f"{' '.join(words.decode(errors='replace').split()) or 'it logged nothing'}"
        )

    async def _status(self) -> str:
        await asyncio.to_thread(self._container.reload)
        return str(self._container.status)

    async def _stop_cleanly(self) -> None:
        # PostgreSQL waits for its clients when it is sent SIGTERM, and disconnects them on SIGINT.
        signal = "SIGINT" if self.kind == "postgres" else "SIGTERM"
        await asyncio.to_thread(self._container.kill, signal)
        with contextlib.suppress(RequestException):
            await asyncio.to_thread(self._container.wait, timeout=STOP_SECONDS_MAX)
        await asyncio.to_thread(self._container.stop, timeout=STOP_SECONDS_MAX)

    async def _kill(self) -> None:
        if await self._status() == "running":
            await asyncio.to_thread(self._container.kill, "SIGKILL")
            await asyncio.to_thread(self._container.wait, timeout=STOP_SECONDS_MAX)

    async def _start(self) -> None:
        if await self._status() != "running":
            await asyncio.to_thread(self._container.start)
        await self.until_ready()

    async def _pause(self) -> None:
        await asyncio.to_thread(self._container.pause)

    async def _resume(self) -> None:
        if await self._status() == "paused":
            await asyncio.to_thread(self._container.unpause)


class DockerServers:
    """The containers of this session and worker."""

    def __init__(self, choice: Choice, background: Background) -> None:
        self._choice = choice
        self._background = background
        self._containers: list[Any] = []
        try:
            check_engine_listens()
            self._client = docker.from_env(timeout=_CALL_SECONDS_MAX)
            self._client.ping()
            self._remove_leftovers()
        except _FAILURES as error:
            raise ServerUnreachableError(
                f"no Docker engine answers ({_one_line(error)}); start one, or run with --soak-servers=embedded"
            ) from error

    def start(self, kind: str, version: Version) -> SoakServer:
        if kind == "postgres-replica":
            raise ServerUnreachableError(
                "a replica is not started in Docker; run with --soak-servers=embedded, or give the address of one"
            )
        image = self._choice.images.get(version.name, version.image)
        password = secrets.token_hex(16)
        port = free_port()
        try:
            container = self._run(image, port, **_recipe(self._choice, version, password))
        except _FAILURES as error:
            raise ServerUnreachableError(
                f"{version.name} cannot be started from image {image} ({_one_line(error)}); "
                f"pull the image, or name another with --soak-docker-image={version.name}=IMAGE"
            ) from error
        server = DockerServer(kind, version, self._background, container, _url(version, password, port))
        self._background.call(server.until_ready())
        return server

    def stop(self) -> None:
        for container in self._containers:
            _remove(container)
        self._containers.clear()
        self._client.close()

    def _run(self, image: str, port: int, *, inside: int, command: list[str], environment: Mapping[str, str]) -> Any:
        container = self._client.containers.create(
            image,
            command,
            environment=dict(environment),
            labels=_labels(),
            ports={f"{inside}/tcp": (HOST, port)},
            name=f"soak-pytest-{secrets.token_hex(6)}",
        )
        # Before it is started: it has to be removed whatever comes.
        self._containers.append(container)
        container.start()
        return container

    def _remove_leftovers(self) -> None:
        """Remove containers of sessions on this machine whose process is gone."""
        for container in self._client.containers.list(all=True, filters={"label": f"{HOST_LABEL}={_boot()}"}):
            with contextlib.suppress(docker.errors.NotFound):
                if not _is_alive(container.labels.get(OWNER_LABEL, "")):
                    _remove(container)


def check_engine_listens() -> None:
    """Raise `OSError` if nobody listens where the engine should.

    Docker's client would leave a socket open then, which a project that takes warnings for errors is told of.
    """
    address = os.environ.get("DOCKER_HOST") or _ENGINE
    if not address.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CALL_SECONDS_MAX)
        probe.connect(address.removeprefix("unix://"))


def _recipe(choice: Choice, version: Version, password: str) -> dict[str, Any]:
    """Return how a server is started with the durability of production, in the official images or one like them."""
    if version.kind == "redis":
        program = "valkey-server" if version.name.startswith("valkey") else "redis-server"
        options = {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "requirepass": password,
            **choice.redis_options,
        }
        command = [program, *(word for name, value in options.items() for word in (f"--{name}", value))]
        return {"inside": 6379, "command": command, "environment": {}}
    settings = [word for name, value in choice.postgres_options.items() for word in ("-c", f"{name}={value}")]
    return {
        "inside": 5432,
        "command": ["postgres", "-c", "max_connections=200", *settings],
        "environment": {"POSTGRES_USER": _USER, "POSTGRES_PASSWORD": password, "POSTGRES_DB": "postgres"},
    }


def _url(version: Version, password: str, port: int) -> str:
    if version.kind == "redis":
        return f"redis://:{password}@{HOST}:{port}/0"
    return f"postgresql://{_USER}:{password}@{HOST}:{port}/postgres?sslmode=disable"


def _labels() -> dict[str, str]:
    process = psutil.Process()
    return {LABEL: "1", OWNER_LABEL: f"{process.pid}:{process.create_time():.0f}", HOST_LABEL: _boot()}


def _boot() -> str:
    """Return what tells this machine, as it was started, from others that may use the same Docker engine."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        started = ""
    return f"{os.uname().nodename}:{started}"


def _is_alive(owner: str) -> bool:
    pid, _, created = owner.partition(":")
    try:
        return abs(psutil.Process(int(pid)).create_time() - float(created)) < 5.0
    except (psutil.Error, ValueError):
        return False


def _remove(container: Any) -> None:
    # Its volume goes with it; a paused one is removed like any other.
    with contextlib.suppress(docker.errors.DockerException, RequestException):
        container.remove(force=True, v=True)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
