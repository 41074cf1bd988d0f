"""The Docker engine: found, asked whether it answers, and its errors in one line."""

from __future__ import annotations

import os
import socket
from typing import Any

import docker
import docker.errors
from requests.exceptions import RequestException

from soak.errors import ServerUnreachableError

FAILURES = (docker.errors.DockerException, RequestException, OSError)
"""What the client raises when the engine refuses, fails, or is not there."""
CALL_SECONDS_MAX = 60
API_MIN = "1.41"
_SOCKET = "unix:///var/run/docker.sock"
_LINE_CHARACTERS_MAX = 300


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
            f"the Docker engine does not tell its version ({one_line(error)}); check that it runs"
        ) from error
    if _number(version) < _number(API_MIN):
        client.close()
        raise ServerUnreachableError(f"the Docker engine speaks API {version}; soak needs {API_MIN} (Docker 20.10)")
    return client


def check_engine_listens() -> None:
    """Raise `OSError` if nobody listens where the engine should.

    Docker's client would leave a socket open then, which a project that takes warnings for errors is told of.
    """
    address = os.environ.get("DOCKER_HOST") or _SOCKET
    if not address.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CALL_SECONDS_MAX)
        probe.connect(address.removeprefix("unix://"))


def no_disks_in(client: Any) -> str | None:
    """Return why this engine cannot mount disks of this machine; None if it can."""
    address = os.environ.get("DOCKER_HOST") or _SOCKET
    if not address.startswith("unix://"):
        return f"no power cuts by file system: the Docker engine is at {address}, and its disks are not here"
    told = client.info()
    if told.get("Name") != os.uname().nodename:
        return f"no power cuts by file system: the Docker engine is on {told.get('Name')}, and its disks are not here"
    if any("rootless" in str(option) for option in told.get("SecurityOptions") or ()):
        return "no power cuts by file system: a rootless Docker engine may not mount one; take one that runs as root"
    return None


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_LINE_CHARACTERS_MAX]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
