"""The same fixtures and checks on servers in Docker."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from soak.servers.docker.ownership import SERVER_LABEL
from tests.support.plugin_run import run_pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.docker.images import Images

SUITE = """
from soak.pytest_plugin import MemoryContract

class TestRedis(MemoryContract):
    store = "redis-list"

class TestPostgres(MemoryContract):
    store = "postgres"
"""


VERSIONS = ("valkey-9", "postgres-18")


def containers(engine: Any, images: Images) -> list[Any]:
    """Return all containers of our images; other workers have images, and so containers, of their own."""
    found = [engine.containers.list(all=True, filters={"ancestor": images[version]}) for version in VERSIONS]
    return [container for some in found for container in some]


def options(images: Images) -> list[str]:
    return ["--soak-servers=docker", *(f"--soak-docker-image={version}={images[version]}" for version in VERSIONS)]


@pytest.mark.extra
def test_the_contract_holds_on_servers_in_docker_and_no_container_is_left(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    chosen = "identical or away or silent_is_an_error or restart or crash or closing or written_today"
    arguments = ("--soak-versions=newest", "-k", chosen, *options(images))
    result = run_pytest(tmp_path, {"test_mine.py": SUITE}, *arguments)
    assert set(result.outcomes.values()) == {"passed"}, result.output
    assert len(result.outcomes) == 14
    assert containers(engine, images) == []


@pytest.mark.extra
def test_what_a_killed_session_left_is_removed_by_the_next_one(tmp_path: Path, engine: Any, images: Images) -> None:
    waits = "import time\n\ndef test_it_waits(soak_redis):\n    open('started', 'w').close()\n    time.sleep(60)\n"
    (tmp_path / "test_wait.py").write_text(waits)
    killed = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-pno:cacheprovider", *options(images), "test_wait.py"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 90
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    (left,) = containers(engine, images)
    assert left.labels[SERVER_LABEL] == "redis"
    assert [port["HostIp"] for ports in left.ports.values() for port in ports] == ["127.0.0.1"]
    killed.kill()
    killed.wait()
    files = {"test_mine.py": "def test_it(soak_redis):\n    assert soak_redis.url\n"}
    result = run_pytest(tmp_path, files, *options(images), "test_mine.py")
    assert result.outcomes == {"test_it": "passed"}, result.output
    assert containers(engine, images) == []


def test_an_image_that_is_not_there_is_said_in_one_line(tmp_path: Path, engine: Any) -> None:
    files = {"test_mine.py": "def test_it(soak_redis):\n    pass\n"}
    image = "--soak-docker-image=valkey-9=soak-test-none:1"
    result = run_pytest(tmp_path, files, "--soak-servers=docker", image)
    assert result.outcomes == {"test_it": "error"}
    assert "cannot be started from image soak-test-none:1" in result.messages["test_it"]
    assert "Traceback" not in result.output


def test_without_an_engine_the_way_out_is_told(tmp_path: Path) -> None:
    files = {"test_mine.py": "def test_it(soak_redis):\n    pass\n"}
    nowhere = f"unix://{tmp_path}/no.sock"
    result = run_pytest(tmp_path, files, "--soak-servers=docker", DOCKER_HOST=nowhere)
    assert "no Docker engine answers" in result.messages["test_it"]
    assert "--soak-servers=embedded" in result.messages["test_it"]
    assert (result.code, "Warning" in result.output) == (1, False)
