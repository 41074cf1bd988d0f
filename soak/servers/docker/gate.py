"""A gate before the Docker engine: lets the verbs that faults need through to the containers that are named.

Whoever may speak to the engine's socket is root on that machine: one call starts a container with the disk mounted.
So the soak is given this socket in its place. What passes is rebuilt from the parts that were understood; nothing of
a request is handed on as it came, and no request has a body.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from soak.errors import ServerUnreachableError, UsageError

ENGINE_SOCKET = Path("/var/run/docker.sock")
CALL_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 300
LOG_LINES_MAX = 200
ANSWER_BYTES_MAX = 4 * 2**20
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
_PATH = re.compile(r"(?P<version>/v1\.\d{1,3})?/(?:version|containers/(?P<name>[^/%]+)/(?P<verb>[a-z]+))")
_TOLD: Mapping[str, Collection[str] | None] = {
    "Id": None,
    "Name": None,
    "State": None,
    "Config": ("Tty",),
    "HostConfig": ("NetworkMode", "PortBindings", "RestartPolicy"),
    "NetworkSettings": ("Networks", "Ports"),
}
"""The fields of a container that pass. Not its environment, where passwords are, and not its mounts."""


class Passed(NamedTuple):
    """A request as it goes on to the engine."""

    method: str
    path: str
    query: dict[str, str]
    is_inspection: bool = False


def passed(method: str, path: str, query: Mapping[str, str], names: Collection[str]) -> Passed | None:
    """Return what becomes of a request; None if it must not pass."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    version, name, verb = found["version"] or "", found["name"], found["verb"]
    if name is None:
        return Passed("GET", f"{version}/version", {}) if method == "GET" else None
    parameters = _parameters(method, verb, query) if name in names else None
    if parameters is None:
        return None
    return Passed(method, f"{version}/containers/{name}/{verb}", parameters, is_inspection=verb == "json")


def _parameters(method: str, verb: str, query: Mapping[str, str]) -> dict[str, str] | None:
    """Return what is said with a verb, cut to measure; None if it must not pass."""
    lines = _number(query.get("tail", ""), LOG_LINES_MAX)
    seconds = _number(query.get("t", ""), STOP_SECONDS_MAX)
    known: dict[tuple[str, str], dict[str, str]] = {
        ("GET", "json"): {},
        ("GET", "logs"): {"stdout": "1", "stderr": "1", "follow": "0", "tail": str(lines)},
        ("POST", "start"): {},
        ("POST", "stop"): {"t": str(seconds)},
        ("POST", "kill"): {"signal": "SIGKILL"},
        ("POST", "pause"): {},
        ("POST", "unpause"): {},
    }
    return known.get((method, verb))


def _number(text: str, most: int) -> int:
    return min(int(text), most) if text.isascii() and text.isdigit() else most


def missed_before(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an inspection that faults need."""
    return {
        name: container[name] if parts is None else {part: container[name].get(part) for part in parts}
        for name, parts in _TOLD.items()
        if container.get(name) is not None
    }


class DockerGate:
    """Listens on a socket of its own, and asks the engine on its socket."""

    def __init__(self, names: Collection[str], listen: Path, engine: Path = ENGINE_SOCKET) -> None:
        if wrong := sorted(name for name in names if NAME.fullmatch(name) is None):
            raise UsageError(f"{wrong[0]!r} is not the name of a container; see docker ps --all")
        if not names:
            raise UsageError("no container is named, so nothing could pass; name some with --container")
        self._names = frozenset(names)
        self._listen = listen
        self._engine = engine
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None)
        self._client: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Begin to listen; raises `SoakError` where that is not possible."""
        try:
            is_socket = stat.S_ISSOCK(self._engine.stat().st_mode)
        except OSError as error:
            raise ServerUnreachableError(
                f"{self._engine} cannot be reached ({error.strerror}); mount the socket of the Docker engine there"
            ) from error
        if not is_socket:
            raise UsageError(f"{self._engine} is no socket; name that of the Docker engine with --docker")
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS_MAX + STOP_SECONDS_MAX)
        self._client = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(self._engine)), timeout=timeout)
        await self._runner.setup()
        try:
            await web.UnixSite(self._runner, self._listen).start()
            # Who may come in is decided by who can reach the folder: a volume that two containers share.
            self._listen.chmod(0o666)
        except OSError as error:
            await self.close()
            raise UsageError(
                f"cannot listen on {self._listen} ({error.strerror}); name another with --listen"
            ) from None

    async def close(self) -> None:
        await self._runner.cleanup()
        if self._client is not None:
            await self._client.close()

    async def _answer(self, request: web.Request) -> web.Response:
        onward = passed(request.method, request.rel_url.raw_path, request.query, self._names)
        if onward is None:
            return _refusal(403, f"the gate lets no {request.method} {request.path} through")
        if self._client is None:
            return _refusal(503, "the gate is closed")
        try:
            # The engine does not look at the name of the host.
            url = f"http://docker{onward.path}"
            async with self._client.request(onward.method, url, params=onward.query) as answer:
                body = await answer.content.read(ANSWER_BYTES_MAX + 1) if answer.status != 304 else b""
                while len(body) <= ANSWER_BYTES_MAX and (more := await answer.content.read(ANSWER_BYTES_MAX)):
                    body += more
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return _refusal(502, f"the Docker engine does not answer the gate ({type(error).__name__})")
        if len(body) > ANSWER_BYTES_MAX:
            return _refusal(502, "the answer of the Docker engine is too long for the gate")
        if onward.is_inspection and answer.status == 200:
            body = msgspec.json.encode(missed_before(msgspec.json.decode(body)))
        return web.Response(body=body, status=answer.status, content_type=answer.content_type)


def _refusal(status: int, message: str) -> web.Response:
    return web.Response(body=msgspec.json.encode({"message": message}), status=status, content_type="application/json")
