"""What all servers of a soak offer together, whether they are processes here, containers, somebody else's, or mixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from soak.errors import UsageError
from soak.servers.kinds import BackendKind, with_needs
from soak.servers.server import Server

FOLDER_NAME = "servers"
"""In the data folder: what servers keep there."""


class Servers(Protocol):
    """The servers of one soak."""

    @property
    def backend(self) -> BackendKind:
        """What they run in."""

    @property
    def no_power_cuts(self) -> str | None:
        """Why no server under test can lose its power here; None if one can."""

    namespace: str | None
    """The prefix of everything the run writes, once it is known."""

    @property
    def nodes(self) -> Mapping[str, Server]:
        """The started servers by name."""

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        """Start these kinds of servers, on the data they had if there is any; returns all addresses by name.

        May be called again for further kinds. Raises `ServerUnreachableError` or `UsageError`, and then leaves none of
        the servers it was asked for running.
        """

    async def stop(self) -> None:
        """End all servers, cleanly where they let us; afterwards nothing of them runs, and their data is kept."""

    async def discard(self) -> None:
        """Remove the data of all servers, which have been stopped."""

    async def telemetry(self, name: str) -> dict[str, str]:
        """Sample a server's own counters; raises `ServerUnreachableError` when it does not answer."""

    def refuses(self, fault: str, target: str) -> str | None:
        """Return why this fault must not happen to this server; None if it may, as far as its operator is concerned."""


class CombinedServers:
    """Servers here, in Docker, and given ones in the same soak: everything is passed on to who has the server."""

    backend = BackendKind.COMBINED

    def __init__(self, parts: Mapping[str, Servers]) -> None:
        """Take each kind of server from where it is."""
        self.namespace: str | None = None
        self._parts = parts
        self._all = list({id(servers): servers for servers in parts.values()}.values())

    @property
    def nodes(self) -> Mapping[str, Server]:
        return {name: server for servers in self._all for name, server in servers.nodes.items()}

    @property
    def no_power_cuts(self) -> str | None:
        # One that can is enough: what has no power of its own says so itself.
        reasons = [servers.no_power_cuts for servers in self._all]
        return None if None in reasons else reasons[-1]

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        wanted = [kind.name for kind in with_needs(kinds)]
        if missing := [name for name in wanted if name not in self._parts]:
            raise UsageError(f"no server of kind {', '.join(missing)} is started or given here")
        started: list[Servers] = []
        try:
            for servers in self._all:
                if own := [name for name in wanted if self._parts[name] is servers]:
                    started.append(servers)
                    await servers.start(own)
        except BaseException:
            for servers in started:
                await servers.stop()
            raise
        return {name: server.url for name, server in self.nodes.items()}

    async def stop(self) -> None:
        problems: list[BaseException] = []
        for servers in self._all:
            try:
                await servers.stop()
            except Exception as error:  # noqa: BLE001  the others are stopped all the same
                problems.append(error)
        if problems:
            raise problems[0]

    async def discard(self) -> None:
        for servers in self._all:
            await servers.discard()

    async def telemetry(self, name: str) -> dict[str, str]:
        return await self._parts[name].telemetry(name)

    def refuses(self, fault: str, target: str) -> str | None:
        servers = self._parts.get(target)
        return servers.refuses(fault, target) if servers is not None else None
