"""The gate before the Docker engine: what faults need passes for named containers, and nothing else does."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from soak import faults
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.docker.gate import LOG_LINES_MAX, DockerGate, passed
from soak.servers.external.servers import ExternalServers
from soak.servers.ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.docker.images import Images

NAMED = ("soak-redis",)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/version", {}),
        ("GET", "/v1.41/version", {}),
        ("GET", "/v1.41/containers/soak-redis/json", {}),
        ("POST", "/v1.41/containers/soak-redis/start", {}),
        ("POST", "/containers/soak-redis/pause", {}),
        ("POST", "/containers/soak-redis/unpause", {}),
    ],
)
def test_what_faults_need_passes(method: str, path: str, query: dict[str, str]) -> None:
    assert passed(method, path, query, NAMED) is not None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/containers/json"),
        ("POST", "/containers/create"),
        ("POST", "/containers/soak-redis/exec"),
        ("POST", "/containers/soak-redis/update"),
        ("POST", "/containers/soak-redis/rename"),
        ("POST", "/containers/soak-redis/json"),
        ("DELETE", "/containers/soak-redis"),
        ("DELETE", "/containers/soak-redis/start"),
        ("GET", "/containers/soak-redis/archive"),
        ("GET", "/containers/soak-redis/start"),
        ("POST", "/containers/other/start"),
        ("POST", "/containers/soak-redis2/start"),
        ("POST", "/containers/../images/prune"),
        ("POST", "/containers/soak-redis/start/../../other/kill"),
        ("POST", "/containers/soak%2dredis/start"),
        ("POST", "//containers/soak-redis/start"),
        ("POST", "/v1.41/v1.41/containers/soak-redis/start"),
        ("POST", "/version"),
        ("GET", "/info"),
        ("GET", "/events"),
        ("POST", "/build"),
        ("GET", "/"),
    ],
)
def test_everything_else_is_refused(method: str, path: str) -> None:
    assert passed(method, path, {}, NAMED) is None


def test_what_is_asked_for_beyond_measure_is_cut_to_measure() -> None:
    kill = passed("POST", "/containers/soak-redis/kill", {"signal": "SIGHUP"}, NAMED)
    assert kill is not None
    assert kill.query == {"signal": "SIGKILL"}
    logs = passed("GET", "/containers/soak-redis/logs", {"follow": "1", "tail": "all"}, NAMED)
    assert logs is not None
    assert (logs.query["follow"], logs.query["tail"]) == ("0", str(LOG_LINES_MAX))
    stop = passed("POST", "/containers/soak-redis/stop", {"t": "99999999"}, NAMED)
    assert stop is not None
    assert stop.query == {"t": "300"}


async def test_a_gate_that_cannot_open_says_why_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no container is named"):
        DockerGate([], tmp_path / "gate")
    with pytest.raises(UsageError, match="not the name of a container"):
        DockerGate(["a/b"], tmp_path / "gate")
    with pytest.raises(ServerUnreachableError, match="mount the socket"):
        await DockerGate(NAMED, tmp_path / "gate", tmp_path / "nothing").open()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is no socket"):
        await DockerGate(NAMED, tmp_path / "gate", tmp_path / "file").open()


@contextlib.asynccontextmanager
async def opened(path: Path, *names: str) -> AsyncIterator[None]:
    gate = DockerGate(names, path)
    await gate.open()
    try:
        yield
    finally:
        await gate.close()


@pytest.fixture
def redis(engine: Any, images: Images) -> Iterator[tuple[str, str]]:
    """Return the name of a container with a secret in its environment, and its address."""
    port = free_port()
    container = engine.containers.run(
        images["valkey-9"],
        ["valkey-server", "--appendonly", "yes", "--protected-mode", "no"],
        detach=True,
        name=f"soak-test-gated-{uuid.uuid4().hex[:8]}",
        environment={"SECRET": "not-for-everyone"},
        ports={"6379/tcp": (HOST, port)},
    )
    yield container.name, f"redis://{HOST}:{port}"
    container.remove(force=True, v=True)


@pytest.mark.long
async def test_a_fault_goes_through_the_gate_and_the_rest_of_the_engine_is_out_of_reach(
    tmp_path: Path, redis: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, url = redis
    path = tmp_path / "gate.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    async with opened(path, name):
        servers = ExternalServers(tmp_path, {"redis": url}, allow_faults=["crash", "pause"], containers={"redis": name})
        try:
            await servers.start(["redis"])
            await servers.nodes["redis"].start_again()
            before = (await servers.telemetry("redis"))["run_id"]
            for fault in ("pause", "crash"):
                await faults.ALL[fault].inject(servers, "redis")
                await faults.ALL[fault].heal(servers, "redis")
            assert (await servers.telemetry("redis"))["run_id"] != before
            assert await servers.nodes["redis"].backend.last_words()
        finally:
            await servers.stop()
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path))) as client:
            async with client.get(f"http://docker/containers/{name}/json") as answer:
                told = await answer.text()
                assert json.loads(told)["State"]["Status"] == "running"
                assert "not-for-everyone" not in told
            body = {"Image": "any", "HostConfig": {"Binds": ["/:/host"]}}
            async with client.post("http://docker/containers/create", json=body) as answer:
                assert answer.status == 403
                assert "the gate lets no POST" in (await answer.json())["message"]


@pytest.mark.long
async def test_a_container_that_the_gate_was_not_told_of_cannot_even_be_looked_at(
    tmp_path: Path, redis: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, url = redis
    path = tmp_path / "gate.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    async with opened(path, "another"):
        servers = ExternalServers(tmp_path, {"redis": url}, allow_faults=["crash"], containers={"redis": name})
        with pytest.raises(ServerUnreachableError, match="the gate before it"):
            await servers.start(["redis"])
        await servers.stop()
