"""Servers from installed packages: no Docker, no root, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.pytest_plugin.testbeds import TestbedServers
from soak.testbed import LocalTestbed, versions

if TYPE_CHECKING:
    from pathlib import Path

    from soak.pytest_plugin.versions import Version
    from soak.testbed import Testbed


class EmbeddedServers(TestbedServers):
    """Local processes."""

    def _make(self, version: Version, folder: Path) -> Testbed:
        if version.kind == "redis":
            return LocalTestbed(folder, redis_version=version.name, redis_options=self._choice.redis_options)
        return LocalTestbed(
            folder,
            postgres_version=versions.postgres_version(version.name).major,
            postgres_options=self._choice.postgres_options,
        )
