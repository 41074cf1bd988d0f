"""A Docker engine and images for it, made without a registry when first asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import docker_images
import pytest

from soak.errors import ServerUnreachableError
from soak.testbed.docker.engine import connect

if TYPE_CHECKING:
    from collections.abc import Iterator


class Images:
    """Names of images by version; each is made once per worker."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._made: dict[str, str] = {}

    def __getitem__(self, version: str) -> str:
        if version not in self._made:
            self._made[version] = docker_images.build(self.engine, version)
        return self._made[version]

    def remove(self) -> None:
        for image in self._made.values():
            self.engine.images.remove(image, force=True)


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    try:
        client = connect()
    except ServerUnreachableError as error:
        if os.environ.get("SOAK_REQUIRE_ALL") == "1":
            raise
        pytest.skip(str(error))
    yield client
    client.close()


@pytest.fixture(scope="session")
def images(engine: Any) -> Iterator[Images]:
    found = Images(engine)
    yield found
    found.remove()
