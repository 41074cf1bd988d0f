"""The image: built as it is shipped, small in rights, and ended politely it still gives its verdict."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import soak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.docker.deploy_images import DeployImages

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # an image is built

PATIENCE_SECONDS = 240.0
STOP_SECONDS_MAX = 360
BUSY = ("--users", "8", "--set", "load.think=100ms")


@pytest.fixture(scope="session")
def image(deploy_images: DeployImages) -> str:
    return deploy_images.soak()


@contextlib.contextmanager
def started(engine: Any, image: str, *words: str, **options: Any) -> Iterator[Any]:
    container = engine.containers.run(
        image,
        list(words),
        detach=True,
        name=f"soak-test-image-{uuid.uuid4().hex[:8]}",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        tmpfs={"/tmp": "mode=1777"},  # noqa: S108  inside the container
        **options,
    )
    try:
        yield container
    finally:
        container.remove(force=True, v=True)


def until(container: Any, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        container.reload()
        assert container.status == "running", container.logs().decode()
        assert time.monotonic() < deadline, container.logs().decode()
        time.sleep(0.2)


def test_the_image_says_what_it_is_and_has_nothing_it_does_not_need(engine: Any, image: str) -> None:
    config = engine.images.get(image).attrs["Config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["soak"]
    assert config["Labels"]["org.opencontainers.image.version"] == soak.__version__
    assert list(config["Volumes"]) == ["/data"]
    # Whoever overrides the entry point sees: no compiler, no pip, nothing of the build, no file that was not asked for.
    look = (
        "import os, shutil; from pathlib import Path; import importlib.util as u;"
        "print(os.getuid(), [shutil.which(p) for p in ('cc', 'gcc', 'pip')], u.find_spec('pip'),"
        " Path('/build').exists(), list(Path('/').rglob('secret.env')))"
    )
    with started(engine, image, "-c", look, entrypoint="python") as container:
        container.wait(timeout=PATIENCE_SECONDS)
        assert container.logs().decode().split(maxsplit=1)[0] == "10001"
        told = container.logs().decode()
        assert "[None, None, None]" in told
        assert told.endswith("False []\n")
    with started(engine, image, "--version") as container:
        assert container.wait(timeout=PATIENCE_SECONDS)["StatusCode"] == 0
        assert container.logs().decode().startswith(f"soak {soak.__version__} ")


def test_a_check_on_servers_of_its_own_passes_without_rights_and_on_a_disk_that_is_read_only(
    engine: Any, image: str
) -> None:
    words = ("check", "--store", "redis-list", "--store", "postgres", *BUSY, "--duration", "3s", "--json")
    with started(engine, image, *words) as container:
        code = container.wait(timeout=PATIENCE_SECONDS)["StatusCode"]
        assert code == 0, container.logs().decode()
        assert json.loads(container.logs(stderr=False))["verdict"] == "pass"


def test_docker_stop_drains_and_the_verdict_is_in_the_log(engine: Any, image: str) -> None:
    with started(engine, image, "run", "--store", "redis-list", *BUSY) as container:

        def is_healthy() -> bool:
            return bool(engine.api.inspect_container(container.id)["State"]["Health"]["Status"] == "healthy")

        until(container, is_healthy)
        until(container, lambda: re.search(rb"verified [1-9]", container.logs()))
        # The first process reaps: nobody below it is a zombie.
        states = [row[0] for row in container.top(ps_args="-o stat,pid,args")["Processes"]]
        assert not [state for state in states if state.startswith("Z")]
        container.stop(timeout=STOP_SECONDS_MAX)
        container.reload()
        told = container.logs().decode()
        assert container.attrs["State"]["ExitCode"] == 0, told
        assert "draining: SIGTERM" in told
        assert "pass  run " in told
