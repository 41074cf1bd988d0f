"""All servers of one test session, each started when a test first asks for it: one testbed per version."""

from __future__ import annotations

import abc
from pathlib import Path

from soak.contract_suite import administration
from soak.errors import ServerUnreachableError, UsageError
from soak.pytest_plugin.options import GIVEN, Choice, Version
from soak.pytest_plugin.server import Background, SoakServer
from soak.servers import versions
from soak.servers.kinds import REDIS, PostgresTopology, RedisTopology
from soak.servers.local import LocalServers
from soak.servers.servers import Servers
from soak.servers.temporary import TemporaryFolder


class ServerSource(abc.ABC):
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
        return SoakServer(kind, version, self._background, testbed.nodes[kind])

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


class LocalSource(ServerSource):
    """Servers from installed packages, as local processes: no Docker, no root, no network."""

    def _make(self, version: Version, folder: Path) -> Servers:
        if version.kind == REDIS.name:
            return LocalServers(
                folder,
                redis_version=version.name,
                redis_topology=RedisTopology(version.topology or RedisTopology.SINGLE),
                redis_options=self._choice.redis_options,
            )
        return LocalServers(
            folder,
            postgres_topology=PostgresTopology(version.topology or PostgresTopology.SINGLE),
            postgres_version=versions.postgres_version(version.name).major,
            postgres_options=self._choice.postgres_options,
        )


class DockerSource(ServerSource):
    """Containers, which are removed in the end; what killed sessions left behind goes with the next one's start."""

    def __init__(self, choice: Choice, background: Background) -> None:
        from soak.servers.docker.engine import connect  # noqa: PLC0415  as below

        super().__init__(choice, background)
        try:
            connect().close()
        except ServerUnreachableError as error:
            raise ServerUnreachableError(f"{error}: run with --soak-servers=embedded") from error

    def start(self, kind: str, version: Version) -> SoakServer:
        try:
            return super().start(kind, version)
        except ServerUnreachableError as error:
            raise ServerUnreachableError(f"{error} (--soak-docker-image={version.name}=IMAGE names one)") from error

    def _make(self, version: Version, folder: Path) -> Servers:
        from soak.servers.docker.servers import DockerServers  # noqa: PLC0415  the client of Docker is a heavy one

        image = self._choice.images.get(version.name)
        if version.kind == REDIS.name:
            return DockerServers(
                folder,
                redis_version=versions.redis_version(version.name),
                redis_image=image,
                redis_options=self._choice.redis_options,
            )
        return DockerServers(
            folder,
            postgres_version=versions.postgres_version(version.name),
            postgres_image=image,
            postgres_options=self._choice.postgres_options,
        )


class ServerPool:
    """Hands out servers by kind and version; under pytest-xdist each worker has a pool, and servers, of its own."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.background = Background()
        self._source: ServerSource | None = None
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
        if version in GIVEN.values():
            url = self.choice.addresses.get(kind)
            if url is None:
                raise UsageError(
                    f"a test needs a {kind} server and no address was given; "
                    f"use --soak-{kind}=URL, or --soak-servers=embedded to have one started"
                )
            self.background.call(administration.reach(kind, url))
            return SoakServer(kind, version, self.background, url=url)
        if self._source is None:
            self._source = self._open_source()
        return self._source.start(kind, version)

    def _open_source(self) -> ServerSource:
        source = DockerSource if self.choice.mode == "docker" else LocalSource
        return source(self.choice, self.background)
