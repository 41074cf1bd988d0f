"""Servers that already run, as a testbed: nothing is started, and nothing is stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from soak.errors import ServerUnreachableError, UsageError
from soak.servers import state
from soak.servers.bed import CHROMA, FOLDER_NAME, HTTP, LEDGER, BedKind
from soak.servers.external.command import OperatorCommand
from soak.servers.external.detour import PORTS
from soak.servers.external.server import IN_THE_WAY, OTHERS, Allowance, GivenPostgres, GivenRedis, GivenServer
from soak.servers.external.service import GivenChroma, GivenService
from soak.servers.ports import HOST
from soak.servers.server import Server, ServerState
from soak.servers.state import Pinned

if TYPE_CHECKING:  # the client of Docker is a heavy one
    from soak.servers.external.containers import ContainedGiven

STORM = "connection_storm"


class ExternalTestbed:
    """Servers by their addresses. Faults happen to them only where the operator allows each by name."""

    kind = BedKind.EXTERNAL

    def __init__(
        self,
        data_dir: Path,
        addresses: Mapping[str, str],
        *,
        allow_faults: Iterable[str] = (),
        restart_command: OperatorCommand | None = None,
        proxy_host: str = HOST,
        containers: Mapping[str, str] | None = None,
    ) -> None:
        """Take servers by kind; the command restarts the one whose kind stands in it as `{server}`.

        Where a fault of the network is allowed, our clients come through a proxy that listens on the given address.
        Servers whose containers are named are broken through Docker instead of by the command.
        """
        if restart_command is not None and len(addresses) > 1 and not restart_command.names_the_server:
            raise UsageError(
                "testbed.restart_command does not say which server it restarts; "
                "several were given, so write {server} where the kind of server belongs"
            )
        self.no_power_cuts: str | None = OTHERS
        self.namespace: str | None = None
        self._allowance = Allowance(frozenset(allow_faults), restart_command)
        self._containers = containers or {}
        self._contained: dict[str, ContainedGiven] = {}
        self._addresses = addresses
        self._proxy_host = proxy_host
        self._state = state.TestbedState()
        self._folder = data_dir.resolve() / FOLDER_NAME / BedKind.EXTERNAL
        self._servers: dict[str, GivenServer] = {}

    @property
    def servers(self) -> Mapping[str, Server]:
        return self._servers

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        """Take the servers of these kinds as they are; whether they answer is seen by whoever asks them first."""
        for kind in kinds:
            if kind not in self._addresses:
                raise UsageError(f"no address of a {kind} server was given")
            if kind in self._servers:
                continue
            url = self._addresses[kind]
            server = await self._take_contained(kind, url) if kind in self._containers else self._take(kind, url)
            self._servers[kind] = server
            await self._make_ready(server)
        return {kind: server.url for kind, server in self._servers.items()}

    async def stop(self) -> None:
        for server in self._servers.values():
            if server.proxy is not None:
                await server.proxy.close()
        self._servers.clear()
        while self._contained:
            await self._contained.popitem()[1].vessel.close()

    async def discard(self) -> None:
        """Remove nothing: the data is not ours."""

    async def telemetry(self, kind: str) -> dict[str, str]:
        return await self._servers[kind].telemetry()

    def refuses(self, fault: str, target: str) -> str | None:
        if target not in self._servers:
            return None
        server = self._servers[target]
        return server.refuses(fault) or (server.no_proxy if fault in IN_THE_WAY else None)

    async def _make_ready(self, server: GivenServer) -> None:
        """Do what the faults that are allowed will need."""
        if server.kind == LEDGER:
            return
        if server.kind in (CHROMA, HTTP):
            server.no_proxy = "faults of the network between us and a web service are not done yet"
            return
        if self._allowance.wants_proxies:
            await self._put_proxy_before(server)
        if STORM in self._allowance.faults:
            # How many connections it allows; one that does not tell is asked in the storm itself.
            with contextlib.suppress(ServerUnreachableError):
                await server.learn_limits()

    async def _put_proxy_before(self, server: GivenServer) -> None:
        # Whoever was told of the port, on this machine or another, finds it again when the run is resumed.
        self._folder.mkdir(parents=True, exist_ok=True)
        self._state = state.load(self._folder)
        known = self._state.servers.get(server.kind)
        server.pinned.proxy_port = known.proxy_port if known is not None else None
        await server.put_proxy_before(self._proxy_host)
        # Without the password: that one is known from elsewhere.
        self._state.servers[server.kind] = Pinned(server.port, "", server.pinned.proxy_port)
        state.save(self._folder, self._state)

    async def _take_contained(self, kind: str, url: str) -> GivenServer:
        # Imported only where it is used: the client of Docker is a heavy one.
        from soak.servers.external import containers  # noqa: PLC0415

        allowance = containers.ContainerAllowance(self._allowance.faults)
        container = containers.NamedContainer(kind, self._containers[kind], self._folder / kind, allowance)
        contained = containers.ContainedGivenPostgres if kind.startswith("postgres") else containers.ContainedGivenRedis
        server = contained(kind, _pinned(kind, url), url, container, allowance)
        self._contained[kind] = server
        await server.take()
        return server

    def _take(self, kind: str, url: str) -> GivenServer:
        server = _class_of(kind)(kind, _pinned(kind, url), url, self._folder / kind, self._allowance)
        server.state = ServerState.RUNNING
        return server


def _class_of(kind: str) -> type[GivenServer]:
    if kind == HTTP:
        return GivenService
    if kind == CHROMA:
        return GivenChroma
    return GivenPostgres if kind.startswith("postgres") else GivenRedis


def _pinned(kind: str, url: str) -> Pinned:
    parts = urlsplit(url)
    return Pinned(parts.port or PORTS[kind], parts.password or "")
