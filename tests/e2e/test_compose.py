"""The compose files: safe as they stand, and a whole soak with faults when they are started."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from soak.servers.external.backend import IN_ITS_CONTAINER
from soak.servers.ports import free_port
from tests.support.checking import total
from tests.support.needs import all_required, installed
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.docker.deploy_images import DeployImages
    from tests.support.docker.images import Images

DEPLOY = ROOT / "deploy"
FILES = ("compose.yaml", "compose.faults.yaml")
PATIENCE_SECONDS = 300.0
COMMAND_SECONDS_MAX = 540.0
WATCHED = ("prometheus", "alertmanager")


def written(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())
    return found


def services() -> dict[str, dict[str, Any]]:
    """Return all services, as the files say; what the second adds to one of the first is left out."""
    return {**written(FILES[1])["services"], **written(FILES[0])["services"]}


def sources(service: dict[str, Any]) -> dict[str, str]:
    """Return what is mounted, by where it comes from."""
    mounts = [volume.replace(":-", "=") for volume in service.get("volumes", ())]
    return {mount.split(":")[0]: mount.split(":", 1)[1] for mount in mounts}


def test_every_port_is_on_the_loopback_address() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert {"soak", "load", "grafana"} <= set(published)
    for name, ports in published.items():
        assert all(port.startswith("127.0.0.1:") for port in ports), name


def test_the_stores_are_on_a_network_that_leads_nowhere_and_publish_nothing() -> None:
    assert written(FILES[0])["networks"]["memory"] == {"internal": True}
    for name in ("redis", "postgres", "ledger"):
        assert services()[name]["networks"] == ["memory"]
        assert "ports" not in services()[name]


def test_no_secret_stands_in_the_files() -> None:
    for path in [*(DEPLOY / name for name in FILES), DEPLOY / ".env"]:
        for line in path.read_text().splitlines():
            words = line.partition("#")[0].upper()
            assert "PASSWORD" not in words, line
            assert "TOKEN" not in words, line
            assert "SECRET" not in words, line
            assert ":" not in words.partition("://")[2].partition("@")[0] or "@" not in words, line


def test_every_service_is_confined_bounded_and_checked() -> None:
    for name, service in services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert {"mem_limit", "cpus", "pids_limit", "healthcheck", "restart"} <= set(service), name
        assert "privileged" not in service, name
        image = service["image"]
        assert ":" in image.partition(":-")[2], f"{name}: {image} is not pinned"
        assert "latest" not in image, name
        for other, wanted in service.get("depends_on", {}).items():
            assert wanted == {"condition": "service_healthy"}, (name, other)


def test_nobody_brings_back_what_a_fault_took_down() -> None:
    for name in ("redis", "postgres", "soak"):
        assert services()[name]["restart"] == "no"


def test_every_volume_has_a_name_and_every_file_that_is_mounted_is_there() -> None:
    named = {name for file in FILES for name in written(file)["volumes"]}
    missing = []
    for name, service in services().items():
        for source in sources(service):
            if source.startswith("."):
                if not (DEPLOY / source).exists():
                    missing.append(f"{name}: {source}")
            else:
                assert source in named or source.startswith("${DOCKER_SOCKET"), (name, source)
    config = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())
    missing += [file for file in config["rule_files"] if not (DEPLOY / "prometheus" / file.rpartition("/")[2]).exists()]
    assert missing == []


def test_the_engines_socket_goes_to_the_gate_and_to_nobody_else() -> None:
    with_socket = {
        name
        for file in FILES
        for name, service in written(file)["services"].items()
        if "/var/run/docker.sock" in str(service.get("volumes"))
    }
    assert with_socket == {"docker-gate"}
    gate = written(FILES[1])["services"]["docker-gate"]
    assert gate["network_mode"] == "none"
    allowed = {word.removeprefix("--container=") for word in gate["command"] if word.startswith("--container=")}
    under_test = {written(FILES[1])["services"][name]["container_name"] for name in ("redis", "postgres")}
    told = written(FILES[1])["services"]["soak"]["environment"]
    assert allowed == under_test == {value for key, value in told.items() if "CONTAINERS__" in key}
    faults = told["SOAK_TESTBED__ALLOW_FAULTS"].partition(":-")[2].rstrip("}")
    assert set(faults.split(",")) <= IN_ITS_CONTAINER


def compose(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    program = installed("docker-compose")
    files = [word for name in FILES for word in ("-f", str(DEPLOY / name))]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SOAK_", "COMPOSE_"))}
    return subprocess.run(
        [program, *files, *words],
        env={**plain, **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )


def test_compose_understands_both_files() -> None:
    told = compose({}, "config")
    assert told.returncode == 0, told.stderr
    found = yaml.safe_load(told.stdout)["services"]
    assert set(found) == set(services())
    assert found["soak"]["environment"]["SOAK_FAULTS__PRESET"] == "recovery"


class Composed:
    """The files, started under a name of their own, on ports of their own and with images of this machine."""

    def __init__(self, environment: dict[str, str], engine: Any) -> None:
        self._environment = environment
        self._engine = engine

    def run(self, *words: str) -> str:
        told = compose(self._environment, *words)
        assert told.returncode == 0, f"{told.stderr[-4000:]}\n{self.logs()}"
        return told.stdout

    def logs(self) -> str:
        return compose(self._environment, "logs", "--no-color", "--tail", "40").stdout[-12000:]

    def container(self, service: str) -> dict[str, Any]:
        project = self._environment["COMPOSE_PROJECT_NAME"]
        labels = [f"com.docker.compose.project={project}", f"com.docker.compose.service={service}"]
        (found,) = self._engine.containers.list(all=True, filters={"label": labels})
        inspected: dict[str, Any] = self._engine.api.inspect_container(found.id)
        return inspected

    def get(self, port: str, path: str) -> Any:
        url = f"http://127.0.0.1:{self._environment[port]}{path}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())

    def until(self, port: str, path: str, holds: Callable[[Any], object]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        told: Any = None
        while time.monotonic() < deadline:
            try:
                told = self.get(port, path)
                if holds(told):
                    return told
            except (OSError, ValueError) as error:
                told = error
            time.sleep(0.5)
        raise AssertionError(f"{told}\n{self.logs()}")

    def left(self) -> list[str]:
        label = {"label": f"com.docker.compose.project={self._environment['COMPOSE_PROJECT_NAME']}"}
        engine = self._engine
        found = (
            *engine.containers.list(all=True, filters=label),
            *engine.networks.list(filters=label),
            *engine.volumes.list(filters=label),
        )
        return [one.name for one in found]


@pytest.fixture
def composed(engine: Any, images: Images, deploy_images: DeployImages) -> Iterator[Composed]:
    from tests.support.docker import deploy_images as made  # noqa: PLC0415  needs Docker

    name = f"soaktest{os.getpid()}"
    ports = ("DAEMON_PORT", "LOCUST_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT", "GRAFANA_PORT")
    environment = {
        "COMPOSE_PROJECT_NAME": name,
        "COMPOSE_PROFILES": "",
        "CONTAINER_PREFIX": name,
        "DAEMON_IMAGE": deploy_images.soak(),
        "VALKEY_IMAGE": deploy_images.made("valkey", *made.valkey()),
        "POSTGRES_IMAGE": images["postgres-18"],
        "PROMETHEUS_IMAGE": deploy_images.made("prometheus", *made.prometheus()),
        "ALERTMANAGER_IMAGE": deploy_images.made("alertmanager", *made.alertmanager()),
        **{port: str(free_port()) for port in ports},
        "SOAK_LOAD__USERS": "8",
        "SOAK_LOAD__SPAWN_RATE": "8",
        "SOAK_LOAD__THINK": "200ms",
        "SOAK_VERIFIER__COVERAGE": "10s",
        "SOAK_FAULTS__EVERY": "20s",
        "SOAK_FAULTS__HEALTHY_MIN": "3s",
    }
    found = Composed(environment, engine)
    try:
        yield found
    finally:
        found.run("down", "--volumes", "--timeout", "5")
        assert found.left() == []


def watched() -> tuple[str, ...]:
    if (DEPLOY / "prometheus").is_dir():
        return WATCHED
    assert not all_required(), "deploy/prometheus is not there"
    return ()


def healed(target: str, status: Any) -> list[dict[str, Any]]:
    return [one for one in status["faults_recent"] if one["target"] == target and one["state"] == "healed"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_composed_soak_breaks_its_siblings_through_the_gate_and_passes(composed: Composed) -> None:
    composed.run("up", "-d", "--no-build", "soak", "load", "load-worker", *watched())
    composed.until("DAEMON_PORT", "/status", lambda status: total(status, "verified") > 20)
    ledger = composed.container("ledger")["State"]["StartedAt"]
    for target in ("redis", "postgres"):
        composed.until("DAEMON_PORT", "/status", partial(healed, target))
        container = composed.container(target)
        assert container["State"]["StartedAt"] > container["Created"]
    after = total(composed.get("DAEMON_PORT", "/status"), "verified")
    composed.until("DAEMON_PORT", "/status", lambda status: total(status, "verified") > after)
    assert composed.container("ledger")["State"]["StartedAt"] == ledger
    composed.until("LOCUST_PORT", "/stats/requests", lambda told: told["user_count"] == 8)
    if watched():
        query = urllib.parse.quote("sum(soak_faults_injected_total) > 0 and on() up{job='soak'} == 1")
        composed.until("PROMETHEUS_PORT", f"/api/v1/query?query={query}", lambda told: told["data"]["result"])
        composed.until("PROMETHEUS_PORT", "/api/v1/rules", lambda told: told["data"]["groups"])
        composed.until("ALERTMANAGER_PORT", "/api/v2/status", lambda told: told["config"])
    composed.run("stop")
    told = composed.run("logs", "--no-color", "soak")
    assert "pass  run " in told, told[-6000:]
    assert composed.container("soak")["State"]["ExitCode"] == 0
