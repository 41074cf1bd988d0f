"""Servers that already run, as a testbed: nothing is started, and nothing is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from soak.errors import UsageError
from soak.testbed.bed import FOLDER_NAME, BedKind
from soak.testbed.external.server import OTHERS, Allowance, GivenPostgres, GivenRedis, GivenServer
from soak.testbed.server import ServerState
from soak.testbed.state import Pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from soak.testbed.external.command import OperatorCommand
    from soak.testbed.external.containers import ContainedGiven
    from soak.testbed.server import Server

_PORTS = {"redis": 6379, "ledger": 6379, "postgres": 5432, "postgres-replica": 5432}


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
        containers: Mapping[str, str] | None = None,
    ) -> None:
        """Take servers by kind; the command restarts the one whose kind stands in it as `{server}`.

        Those whose containers are named are broken through Docker instead.
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
        self._folder = data_dir.resolve() / FOLDER_NAME / "external"
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
            if kind in self._containers:
                await self._take_contained(kind, self._addresses[kind])
            else:
                self._servers[kind] = self._take(kind, self._addresses[kind])
        return {kind: server.url for kind, server in self._servers.items()}

    async def stop(self) -> None:
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
        return self._servers[target].refuses(fault)

    async def _take_contained(self, kind: str, url: str) -> None:
        # Imported only where it is used: the client of Docker is a heavy one.
        from soak.testbed.external import containers  # noqa: PLC0415

        allowance = containers.ContainerAllowance(self._allowance.faults)
        container = containers.NamedContainer(kind, self._containers[kind], self._folder / kind, allowance)
        contained = containers.ContainedGivenPostgres if kind.startswith("postgres") else containers.ContainedGivenRedis
        server = contained(kind, _pinned(kind, url), url, container, allowance)
        self._contained[kind] = server
        await server.take()
        self._servers[kind] = server

    def _take(self, kind: str, url: str) -> GivenServer:
        pinned = _pinned(kind, url)
        given = GivenPostgres if kind.startswith("postgres") else GivenRedis
        server = given(kind, pinned, url, self._folder / kind, self._allowance)
        server.state = ServerState.RUNNING
        return server


def _pinned(kind: str, url: str) -> Pinned:
    parts = urlsplit(url)
    return Pinned(parts.port or _PORTS[kind], parts.password or "")
