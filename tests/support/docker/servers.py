"""Servers in containers, for one test."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from soak.servers.docker import ownership
from soak.servers.docker.servers import DockerServers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.docker.images import Images


@contextlib.asynccontextmanager
async def running(folder: Path, images: Images, *kinds: str, **options: Any) -> AsyncIterator[DockerServers]:
    """Run servers in Docker; whatever happens, nothing of them is left."""
    if any(kind.startswith("postgres") for kind in kinds):
        options.setdefault("postgres_image", images["postgres-18"])
    if "redis" in kinds:
        options.setdefault("redis_image", images["valkey-9"])
    servers = DockerServers(folder, **options)
    try:
        await servers.start(kinds)
        yield servers
    finally:
        await servers.stop()
        await servers.discard()


def found(engine: Any, folder: Path) -> dict[str, list[str]]:
    """Name everything in Docker that belongs to a data folder."""
    label = {"label": f"{ownership.FOLDER_LABEL}={folder.resolve()}"}
    return {
        "containers": sorted(one.name for one in engine.containers.list(all=True, filters=label)),
        "networks": sorted(one.name for one in engine.networks.list(filters=label)),
        "volumes": sorted(one.name for one in engine.volumes.list(filters=label)),
    }


NOTHING: dict[str, list[str]] = {"containers": [], "networks": [], "volumes": []}
