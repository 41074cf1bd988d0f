"""Runs whose servers are containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from soak.servers.docker import ownership

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.docker.images import Images


def left_in_docker(engine: Any, folder: Path) -> list[str]:
    """Name everything in Docker that belongs to a data folder."""
    label = {"label": f"{ownership.FOLDER_LABEL}={folder.resolve()}"}
    containers = engine.containers.list(all=True, filters=label)
    return [
        one.name for one in (*containers, *engine.networks.list(filters=label), *engine.volumes.list(filters=label))
    ]


def in_docker(images: Images) -> list[str]:
    chosen = {"redis_image": images["valkey-9"], "postgres_image": images["postgres-18"], "memory": "256m"}
    return ["--testbed", "docker", *(word for name in chosen for word in ("--set", f"testbed.{name}={chosen[name]}"))]
