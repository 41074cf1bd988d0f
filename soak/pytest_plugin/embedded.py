"""Servers from installed packages: no Docker, no root, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.pytest_plugin.server import SoakServer
from soak.testbed import LocalTestbed
from soak.testbed.temporary import TemporaryFolder

if TYPE_CHECKING:
    from soak.pytest_plugin.background import Background
    from soak.pytest_plugin.options import Choice
    from soak.pytest_plugin.versions import Version
    from soak.testbed import Server


class EmbeddedServer(SoakServer):
    """A local process, started and watched by a testbed."""

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


class EmbeddedServers:
    """One testbed per version, in a temporary folder of this session and worker."""

    def __init__(self, choice: Choice, background: Background) -> None:
        self._choice = choice
        self._background = background
        self._testbeds: dict[str, LocalTestbed] = {}
        self._folder: TemporaryFolder | None = None

    def start(self, kind: str, version: Version) -> SoakServer:
        testbed = self._testbeds.get(version.name)
        if testbed is None:
            testbed = self._testbeds[version.name] = self._testbed(version)
        self._background.call(testbed.start([kind]))
        return EmbeddedServer(kind, version, self._background, testbed.servers[kind])

    def stop(self) -> None:
        try:
            for testbed in self._testbeds.values():
                self._background.call(testbed.stop())
        finally:
            self._testbeds.clear()
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    def _testbed(self, version: Version) -> LocalTestbed:
        if self._folder is None:
            self._folder = TemporaryFolder("soak-pytest-")
        folder = self._folder.path / version.name
        folder.mkdir()
        if version.kind == "redis":
            return LocalTestbed(
                folder,
                redis_version=version.name,
                redis_options=self._choice.redis_options,
            )
        return LocalTestbed(folder, postgres_version=version.number, postgres_options=self._choice.postgres_options)
