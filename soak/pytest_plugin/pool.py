"""All servers of one test session, each started when a test first asks for it."""

from __future__ import annotations

from typing import Protocol

from soak.errors import UsageError
from soak.pytest_plugin import administration, versions
from soak.pytest_plugin.background import Background
from soak.pytest_plugin.options import Choice
from soak.pytest_plugin.server import ExternalServer, SoakServer
from soak.pytest_plugin.testbeds import EmbeddedServers
from soak.pytest_plugin.versions import Version


class Source(Protocol):
    """Where servers of our own come from."""

    def start(self, kind: str, version: Version) -> SoakServer: ...

    def stop(self) -> None: ...


class ServerPool:
    """Hands out servers by kind and version; under pytest-xdist each worker has a pool, and servers, of its own."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.background = Background()
        self._source: Source | None = None
        self._servers: dict[tuple[str, str], SoakServer] = {}

    @property
    def started(self) -> list[SoakServer]:
        return list(self._servers.values())

    def newest(self, kind: str) -> SoakServer:
        """Return the server of this kind in the first of the chosen versions."""
        sets = self.choice.versions_for((kind,))
        if not sets:
            raise UsageError(f"no version of a {kind} server is among --soak-versions")
        return self.get(kind, sets[0][0])

    def get(self, kind: str, version: Version) -> SoakServer:
        """Return the server of this kind and version, started if it was not."""
        found = self._servers.get((kind, version.name))
        if found is None:
            found = self._servers[kind, version.name] = self._start(kind, version)
        return found

    def heal(self) -> None:
        """Mend what the last test left broken."""
        for server in self._servers.values():
            server.heal_now()

    def stop(self) -> None:
        try:
            if self._source is not None:
                self._source.stop()
        finally:
            self._servers.clear()
            self.background.stop()

    def _start(self, kind: str, version: Version) -> SoakServer:
        if version in versions.GIVEN.values():
            url = self.choice.addresses.get(kind)
            if url is None:
                raise UsageError(
                    f"a test needs a {kind} server and no address was given; "
                    f"use --soak-{kind}=URL, or --soak-servers=embedded to have one started"
                )
            self.background.call(administration.reach(kind, url))
            return ExternalServer(kind, version, self.background, url)
        if self._source is None:
            self._source = self._open_source()
        return self._source.start(kind, version)

    def _open_source(self) -> Source:
        if self.choice.mode == "docker":
            # Imported only where it is used: the client of Docker is a heavy one.
            from soak.pytest_plugin.docker import DockerPool  # noqa: PLC0415

            return DockerPool(self.choice, self.background)
        return EmbeddedServers(self.choice, self.background)
