"""The Docker engine: found, asked whether it answers; and what is the same for all servers in containers, ours or not.

The engine is asked in threads, one at a time, for its client blocks.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import docker
import docker.errors
from requests.exceptions import RequestException

from soak.errors import ServerUnreachableError
from soak.servers.backend import ServerBackend

FAILURES = (docker.errors.DockerException, RequestException, OSError)
"""What the client raises when the engine refuses, fails, or is not there."""
CALL_SECONDS_MAX = 60
API_MIN = "1.41"
_SOCKET = "unix:///var/run/docker.sock"
_LINE_CHARACTERS_MAX = 300
ASK_SECONDS = 0.2
POLL_SECONDS = 0.02
KILL_SECONDS_MAX = 10.0
T = TypeVar("T")


def connect() -> Any:
    """Return a client of the engine; raises `ServerUnreachableError` if none answers."""
    try:
        check_engine_listens()
        client = docker.from_env(timeout=CALL_SECONDS_MAX)
    except FAILURES as error:
        raise ServerUnreachableError(
            f"no Docker engine answers ({one_line(error)}); start one, or take servers from packages instead"
        ) from error
    try:
        version = str(client.version()["ApiVersion"])
    except FAILURES as error:
        client.close()
        raise ServerUnreachableError(
            f"the Docker engine does not report its version ({one_line(error)}); check that it runs"
        ) from error
    if _number(version) < _number(API_MIN):
        client.close()
        raise ServerUnreachableError(f"the Docker engine speaks API {version}; soak needs {API_MIN} (Docker 20.10)")
    return client


def check_engine_listens() -> None:
    """Raise `OSError` if nobody listens where the engine should.

    Docker's client would leave a socket open then, which fails the tests of a project that takes warnings for errors.
    """
    address = os.environ.get("DOCKER_HOST") or _SOCKET
    if not address.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CALL_SECONDS_MAX)
        probe.connect(address.removeprefix("unix://"))


def missing_image(title: str, image: str) -> str:
    return (
        f"{title} cannot be started from image {image}, which is not here; "
        f"get it with: docker pull {image}, or name another"
    )


def why_elsewhere(client: Any) -> str | None:
    """Return why this engine does not see the disks and the network of this machine as we do; None if it does."""
    address = os.environ.get("DOCKER_HOST") or _SOCKET
    if not address.startswith("unix://"):
        return f"the Docker engine is at {address}, and its disks are not here"
    info = client.info()
    if info.get("Name") != os.uname().nodename:
        return f"the Docker engine is on {info.get('Name')}, and its disks are not here"
    if any("rootless" in str(option) for option in info.get("SecurityOptions") or ()):
        return "a rootless Docker engine has a network of its own and may not mount a disk; take one that runs as root"
    return None


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_LINE_CHARACTERS_MAX]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


class EngineBackend(ServerBackend):
    """What is the same for all containers."""

    def __init__(
        self, title: str, folder: Path, options: Mapping[str, str], name: str, *, log_name: str = "server.log"
    ) -> None:
        super().__init__(title, folder, options, log_name=log_name)
        self._name = name
        self._pid: int | None = None
        self._ended: str | None = None
        self._asked_at = 0.0
        # A task that was cancelled leaves its call under way: the next one waits for it.
        self._one_at_a_time = threading.Lock()

    async def _call(self, work: Callable[..., T], *arguments: object) -> T:
        """Do this work in a thread, after what is under way."""
        return await asyncio.to_thread(self._alone, work, *arguments)

    async def _do(self, what: str, work: Callable[..., object], *arguments: object) -> None:
        """Do the same; raises `ServerUnreachableError` that says what could not be done."""
        try:
            await self._call(work, *arguments)
        except FAILURES as error:
            raise ServerUnreachableError(
                f"container {self._name} cannot be {what} ({one_line(error)}); see what the Docker engine says"
            ) from error

    @property
    def pid(self) -> int | None:
        return self._pid

    async def how_it_ended(self) -> str | None:
        now = time.monotonic()
        if now - self._asked_at >= ASK_SECONDS:
            self._asked_at = now
            # An engine that gives no answer says nothing about the server.
            with contextlib.suppress(*FAILURES):
                await self._call(self._look)
        return self._ended

    async def end(self, seconds: float) -> None:
        await self._do("stopped", self._end, int(seconds))

    async def kill(self) -> None:
        await self._do("killed", self._kill)

    async def freeze(self) -> None:
        await self._do("paused", self._pause)

    async def thaw(self) -> None:
        await self._do("resumed", self._unpause)

    async def last_words(self, lines_max: int = 3) -> str:
        """Return the end of its log in one line; empty where the engine does not answer."""
        try:
            log = await self._call(self._log, lines_max)
        except FAILURES:
            return ""
        return "; ".join(" ".join(line.split()) for line in log.splitlines() if line.strip())

    # In threads ---------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _look(self) -> object:
        """Ask how the container is: its process, and how it ended if it has."""

    @abc.abstractmethod
    def _end(self, seconds: int) -> None: ...

    @abc.abstractmethod
    def _kill(self) -> None: ...

    @abc.abstractmethod
    def _pause(self) -> None: ...

    @abc.abstractmethod
    def _unpause(self) -> None: ...

    @abc.abstractmethod
    def _log(self, lines_max: int) -> str: ...

    def _alone(self, work: Callable[..., T], *arguments: object) -> T:
        with self._one_at_a_time:
            return work(*arguments)
