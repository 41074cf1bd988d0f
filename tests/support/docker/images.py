"""Docker images of servers, by version."""

from __future__ import annotations

from typing import Any


class Images:
    """Names of Docker images by version, made without a registry, each once per worker."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._made: dict[str, str] = {}

    def __getitem__(self, version: str) -> str:
        from tests.support.docker import server_images  # noqa: PLC0415  most tests need nothing of Docker

        if version not in self._made:
            self._made[version] = server_images.build(self._engine, version)
        return self._made[version]

    def remove(self) -> None:
        for image in self._made.values():
            self._engine.images.remove(image, force=True)
