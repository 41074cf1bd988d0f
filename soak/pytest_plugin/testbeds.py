"""Servers from testbeds, which a soak uses too: one testbed per version, in a temporary folder."""

from __future__ import annotations

import abc
from pathlib import Path

from soak.pytest_plugin.background import Background
from soak.pytest_plugin.options import Choice
from soak.pytest_plugin.server import SoakServer
from soak.pytest_plugin.versions import Version
from soak.servers import versions
from soak.servers.kinds import REDIS
from soak.servers.local import LocalServers
from soak.servers.server import Server
from soak.servers.servers import Servers
from soak.servers.temporary import TemporaryFolder


class TestbedServer(SoakServer):
    """A server that a testbed has started and watches."""

    __test__ = False  # not a test class, whatever its name

    def __init__(self, kind: str, version: Version, background: Background, server: Server) -> None:
        super().__init__(kind, version, background)
        self._server = server

    @property
    def url(self) -> str:
        return self._server.url

    async def _stop_cleanly(self) -> None:
        await self._server.stop_cleanly()

    async def _kill(self) -> None:
        await self._server.kill()

    async def _start(self) -> None:
        await self._server.start_again()

    async def _pause(self) -> None:
        await self._server.pause()

    async def _resume(self) -> None:
        await self._server.resume()


class TestbedServers(abc.ABC):
    """The testbeds of this session and worker."""

    __test__ = False

    def __init__(self, choice: Choice, background: Background) -> None:
        self._choice = choice
        self._background = background
        self._testbeds: dict[str, Servers] = {}
        self._folder: TemporaryFolder | None = None

    def start(self, kind: str, version: Version) -> SoakServer:
        testbed = self._testbeds.get(version.name)
        if testbed is None:
            testbed = self._testbeds[version.name] = self._make(version, self._folder_of(version))
        self._background.call(testbed.start([kind]))
        return TestbedServer(kind, version, self._background, testbed.nodes[kind])

    def stop(self) -> None:
        try:
            for testbed in self._testbeds.values():
                self._background.call(testbed.stop())
                self._background.call(testbed.discard())
        finally:
            self._testbeds.clear()
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    @abc.abstractmethod
    def _make(self, version: Version, folder: Path) -> Servers:
        """Return a testbed for servers of this version, not started yet."""

    def _folder_of(self, version: Version) -> Path:
        if self._folder is None:
            self._folder = TemporaryFolder("soak-pytest-")
        folder = self._folder.path / version.name
        folder.mkdir()
        return folder


class EmbeddedServers(TestbedServers):
    """Servers from installed packages, as local processes: no Docker, no root, no network."""

    def _make(self, version: Version, folder: Path) -> Servers:
        if version.kind == REDIS.name:
            return LocalServers(folder, redis_version=version.name, redis_options=self._choice.redis_options)
        return LocalServers(
            folder,
            postgres_version=versions.postgres_version(version.name).major,
            postgres_options=self._choice.postgres_options,
        )
