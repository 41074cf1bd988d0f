"""Servers in Docker containers: the official images, or others by setting."""

from __future__ import annotations

from pathlib import Path

from soak.errors import ServerUnreachableError
from soak.pytest_plugin.background import Background
from soak.pytest_plugin.options import Choice
from soak.pytest_plugin.server import SoakServer
from soak.pytest_plugin.testbeds import TestbedServers
from soak.pytest_plugin.versions import Version
from soak.servers import versions
from soak.servers.docker.engine import connect
from soak.servers.docker.servers import DockerServers
from soak.servers.kinds import REDIS
from soak.servers.servers import Servers


class DockerPool(TestbedServers):
    """Containers, which are removed in the end; what killed sessions left behind goes with the next one's start."""

    def __init__(self, choice: Choice, background: Background) -> None:
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
