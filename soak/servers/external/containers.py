"""Given servers whose containers the operator has named: these, and no others, may be stopped, killed and paused.

The containers are somebody else's, mostly those of a compose file. So none is made, changed or removed; each is
addressed by its name only, and only by the five verbs that faults need.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import docker.errors

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.docker.engine import FAILURES, KILL_SECONDS_MAX, POLL_SECONDS, EngineBackend, connect, one_line
from soak.servers.external.backend import (
    IN_ITS_CONTAINER,
    IN_THE_WAY,
    OTHERS,
    OVER_THE_WIRE,
    Allowance,
    ExternalBackend,
)
from soak.servers.kinds import ServerKind
from soak.servers.power_cut.source import CutPower
from soak.servers.server import ServerState

ENDS_BY_ITSELF = frozenset({"restart_from_aof", "shutdown_nosave"})
"""Faults after which Docker sees a server that ended with success, and nobody who ended it."""
RESTARTS_AFTER_SUCCESS = frozenset({"always", "unless-stopped"})


class ContainerAllowance(Allowance):
    """What may happen to a given server whose container is named: what is allowed, and can be done to a container."""

    def __init__(self, faults: frozenset[str]) -> None:
        super().__init__(faults, None)
        self.restarted_by_docker: str | None = None
        """The restart policy of its container, where Docker itself would bring the server back."""

    def refuses(self, fault: str) -> str | None:
        if fault not in self.faults:
            return f"{OTHERS}; to allow it: --set testbed.allow_faults={fault}"
        if fault not in IN_ITS_CONTAINER | OVER_THE_WIRE | IN_THE_WAY:
            possible = ", ".join(sorted(IN_ITS_CONTAINER | OVER_THE_WIRE | IN_THE_WAY))
            return f"{fault} needs more than its container, which is not ours; possible are {possible}"
        if fault in ENDS_BY_ITSELF and self.restarted_by_docker is not None:
            return (
                f"Docker would start it again at once (restart: {self.restarted_by_docker}); "
                'give its container restart: "no"'
            )
        return None


class NamedContainer(EngineBackend, ExternalBackend):
    """A container of the operator's, by its name."""

    def __init__(self, kind: ServerKind, url: str, name: str, folder: Path, faults: frozenset[str]) -> None:
        title = f"the given {kind.name} server in container {name}"
        super().__init__(title, folder, {}, name, log_name=f"{kind.name}.log")
        self.url: str = url
        self.status = ""
        """As Docker last called it: `running`, `paused`, `exited` …"""
        self.allowance: ContainerAllowance = ContainerAllowance(faults)
        self._kind = kind.name
        self._client: Any = None

    async def open(self) -> ServerState:
        """Find the container and see that it is the one that serves the address; raises `SoakError` if not.

        It may be as a daemon left it that was killed in the middle of a fault.
        """
        self._client = await asyncio.to_thread(connect)
        try:
            found = await self._call(self._look)
        except docker.errors.NotFound as error:
            raise UsageError(
                f"testbed.containers names {self._name} for {self._kind}, and there is no such container; "
                "docker ps --all lists them"
            ) from error
        except FAILURES as error:
            raise ServerUnreachableError(
                f"container {self._name} cannot be looked at ({one_line(error)}); "
                "see whether the Docker engine, or the gate before it, lets this one through"
            ) from error
        await asyncio.to_thread(self._check_serves, urlsplit(self.url), found)
        policy = str(found["HostConfig"].get("RestartPolicy", {}).get("Name", ""))
        self.allowance.restarted_by_docker = policy if policy in RESTARTS_AFTER_SUCCESS else None
        return _STATES.get(self.status, ServerState.STOPPED)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)

    def refuses(self, what: str) -> str | None:
        return f"{OTHERS}, and its disk is not ours" if what == "wiped" else super().refuses(what)

    async def launch(self) -> None:
        await self._do("started", self._start)

    async def wipe(self) -> None:
        self.check("wiped")

    async def cut_power(self) -> CutPower:
        raise UsageError(f"the power of {self.title} cannot be cut: {OTHERS}")

    # In threads ---------------------------------------------------------------------------------------------

    def _look(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.api.inspect_container(self._name)
        state = found["State"]
        self.status = str(state["Status"])
        self._pid = state["Pid"] or None
        self._ended = None
        if self._pid is None:
            memory = ", out of memory" if state.get("OOMKilled") else ""
            self._ended = f"container {self._name} is {self.status}, exit status {state['ExitCode']}{memory}"
        return found

    def _start(self) -> None:
        self._look()
        if self.status == "paused":
            self._client.api.unpause(self._name)
        self._client.api.start(self._name)  # one that runs already stays as it is
        self._look()

    def _end(self, seconds: int) -> None:
        self._look()
        if self.status == "paused":
            self._client.api.unpause(self._name)  # a paused one cannot end by itself
        self._client.api.stop(self._name, timeout=seconds)
        self._look()

    def _kill(self) -> None:
        with contextlib.suppress(docker.errors.APIError):  # it had ended by itself
            self._client.api.kill(self._name, "SIGKILL")
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while self._look() and self._pid is not None:
            if time.monotonic() >= deadline:
                raise OSError(f"it still runs {KILL_SECONDS_MAX:.0f} s after its kill")
            time.sleep(POLL_SECONDS)

    def _pause(self) -> None:
        self._client.api.pause(self._name)
        self._look()

    def _unpause(self) -> None:
        self._look()
        if self.status == "paused":
            self._client.api.unpause(self._name)
        self._look()

    def _log(self, lines_max: int) -> str:
        return str(self._client.api.logs(self._name, tail=lines_max).decode("utf-8", "replace"))

    def _check_serves(self, address: SplitResult, found: Mapping[str, Any]) -> None:
        """Refuse a container that cannot be where the address leads: it would be broken, and the server would not."""
        if found["HostConfig"].get("NetworkMode") == "host":
            return
        settings = found.get("NetworkSettings") or {}
        networks = list((settings.get("Networks") or {}).values())
        names = {self._name, *(alias for one in networks for alias in one.get("Aliases") or ())}
        published = {int(one["HostPort"]) for ports in (settings.get("Ports") or {}).values() for one in ports or ()}
        planned = {
            int(one["HostPort"])
            for ports in (found["HostConfig"].get("PortBindings") or {}).values()
            for one in ports or ()
            if one.get("HostPort")
        }
        own = {one[key] for one in networks for key in ("IPAddress", "GlobalIPv6Address") if one.get(key)}
        if address.hostname in names or address.port in published | planned or _leads_to(address, own):
            return
        raise UsageError(
            f"testbed.containers names {self._name} for {self._kind}, which is not where {address.hostname}"
            f"{f':{address.port}' if address.port else ''} leads; name the container that serves that address"
        )


def _leads_to(address: SplitResult, own: set[str]) -> bool:
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(address.hostname, address.port)}
    except OSError:
        return False
    return bool(found & own)


_STATES = {"running": ServerState.RUNNING, "paused": ServerState.PAUSED}
