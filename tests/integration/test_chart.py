"""The chart for Kubernetes and the kustomize base: what they render is valid, safe, and understood by the program."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from soak import cli
from soak.configuration import read
from soak.servers.external.backend import IN_ITS_WORKLOAD
from soak.servers.external.workloads import Workload
from soak.stores import registry
from tests.support.charts import (
    CHART,
    VALUE_SETS,
    VERSIONS,
    Object,
    helm,
    objects_of,
    pod_of,
    pods,
    rendered,
    template,
    tool,
    validate,
    values_described,
)
from tests.support.command import plain_environment
from tests.support.pages import table
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

every_set = pytest.mark.parametrize("values", VALUE_SETS)
DAEMON = ("--values", str(CHART / "ci" / "daemon-values.yaml"))
LOCUST_PARSES = (
    "import sys; from locust import events; from locust.argument_parser import parse_options;"
    "from soak.load.locust_events import register; register(events);"
    "import json; [parse_options(words) for words in json.loads(sys.argv[1])]"
)
ADDRESSES = {"redis": "redis://r", "ledger": "redis://l", "postgres": "postgresql://p", "http-token": "secret"}


def kinds(values: str) -> list[str]:
    return sorted({one["kind"] for one in rendered(values)})


def test_there_are_six_value_sets_and_together_they_render_every_template() -> None:
    assert len(VALUE_SETS) == 6
    assert {kind for values in VALUE_SETS for kind in kinds(values)} == {
        *("ConfigMap", "CronJob", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodMonitor"),
        *("PrometheusRule", "Role", "RoleBinding", "Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"),
    }
    once = objects_of(template(*DAEMON, "--set", "mode=none", "--set", "check.enabled=true").stdout)
    assert [one["kind"] for one in once if one["kind"] in {"Job", "StatefulSet", "Deployment"}] == ["Job"]
    validate(next(one for one in once if one["kind"] == "Job"), VERSIONS[0])


@every_set
def test_it_is_linted_and_valid_for_two_versions_of_kubernetes_and_the_operator(values: str) -> None:
    linted = helm("lint", str(CHART), "--strict", "--values", str(CHART / "ci" / f"{values}-values.yaml"))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    for one in rendered(values):
        for version in VERSIONS:
            validate(one, version)


@pytest.mark.parametrize("kind", ["StatefulSet", "ServiceMonitor", "PrometheusRule"])
def test_a_field_that_kubernetes_does_not_know_is_seen(kind: str) -> None:
    one = json.loads(json.dumps(next(one for one in rendered("observed") if one["kind"] == kind)))
    one["spec"]["replicaz"] = 1
    with pytest.raises(Exception, match="replicaz") as caught:
        validate(one, VERSIONS[1])
    assert isinstance(caught.value, jsonschema.ValidationError)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "soak has nothing to test: set stores"),
        (["--set", "stores={redis-list}"], "store redis-list needs the address of its server: set servers.redis.url"),
        (["--set", "stores={redis-lisd}"], "there is no store redis-lisd; name one of chroma,"),
        ([*DAEMON, "--set", "servers.redis.url=redis://:secret@r:6379"], "the address of redis has a password in it"),
        ([*DAEMON, "--set", "ledger.enabled=false"], "the ledger has no address: set ledger.enabled=true"),
        ([*DAEMON, "--set", "ledger.url=redis://l"], "the ledger is both started and given"),
        ([*DAEMON, "--set", "mode=none"], "nothing is to run: set mode to daemon or verifier, or check.enabled=true"),
        (
            [*DAEMON, "--set", "faults.workloads.postgresReplica=a/statefulset/b"],
            "faults.workloads.postgresReplica names the workload of a server whose address is not given",
        ),
        (
            [*DAEMON, "--set", "faults.workloads.redis=a/statefulset/b", "--set", "serviceAccount.create=false"],
            "faults.workloads need mode=daemon and a service account of their own",
        ),
        ([*DAEMON, "--set", "load.user=3"], "at '/load': additional properties 'user' not allowed"),
        ([*DAEMON, "--set", "faults.workloads.redis=redis"], "does not match pattern"),
    ],
)
def test_values_that_cannot_work_are_one_clear_line(words: list[str], line: str) -> None:
    done = template(*words)
    assert done.returncode == 1
    assert sum(line in one for one in done.stderr.splitlines()) == 1, done.stderr
    assert "secret" not in done.stderr.replace("Secret", "").replace("secretName", "")


def test_the_chart_knows_which_server_each_store_needs() -> None:
    text = (CHART / "templates" / "checks.yaml").read_text()
    words = re.findall(r'"([^"]+)"', next(line for line in text.splitlines() if "$needs := dict" in line))
    known = {store: needs.split(",") for store, needs in zip(words[::2], words[1::2], strict=True)}
    assert known == {
        name: [kind.replace("postgres-replica", "postgresReplica") for kind in spec.needs]
        for name, spec in registry.specs().items()
        if name != "sqlite"  # a file of one machine; no two pods share it
    }


def test_every_command_line_is_one_that_the_program_takes() -> None:
    containers = [one for values in VALUE_SETS for pod in pods(values).values() for one in pod["containers"]]
    lines = {(one["name"], *(str(word) for word in one["args"])) for one in containers if one["name"] != "valkey"}
    assert {name for name, *_ in lines} == {"soak", "locust", "check"}
    assert all((one.get("command") == ["locust"]) == (one["name"] == "locust") for one in containers)
    for _, *words in (line for line in lines if line[0] != "locust"):
        cli.parse(words)
    lines_of_locust = [words for name, *words in sorted(lines) if name == "locust"]
    assert len(lines_of_locust) == 3  # the worker's is always the same
    told = json.dumps(lines_of_locust).replace("/opt/soak/", f"{ROOT}/")
    command = [sys.executable, "-c", LOCUST_PARSES, told]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain_environment())
    assert done.returncode == 0, done.stderr


@every_set
def test_every_variable_is_a_setting_with_a_value_that_is_taken(values: str, tmp_path: Path) -> None:
    config = next((one["data"]["soak.toml"] for one in rendered(values) if "soak.toml" in one.get("data", {})), None)
    (tmp_path / "soak.toml").write_text(config or "")
    for pod in pods(values).values():
        for container in pod["containers"]:
            environment = {one["name"]: _value(one) for one in container.get("env", ()) if one["name"] != "SHARD"}
            if container["name"] == "valkey":
                continue
            assert ("SOAK_CONFIG" in environment) == (config is not None)
            settings = read(environ={**environment, "SOAK_CONFIG": str(tmp_path / "soak.toml")}).settings
            assert settings.stores.names
            assert (settings.ledger.url is not None) == (container["name"] != "check")
            assert values != "faults" or container["name"] != "soak" or settings.testbed.workloads.redis is not None


def _value(variable: Object) -> str:
    if "value" in variable:
        return str(variable["value"])
    key = variable["valueFrom"]["secretKeyRef"]["key"]
    return ADDRESSES.get(key, ADDRESSES.get(key.removesuffix("-replica"), "http://h"))


@every_set
def test_no_pod_is_root_or_can_become_it_or_write_anywhere_but_to_its_volumes(values: str) -> None:
    for name, pod in pods(values).items():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        # A service named soak would become variables that look like settings.
        assert pod["enableServiceLinks"] is False
        assert pod["terminationGracePeriodSeconds"] >= 30
        is_breaking = values == "faults" and name == "try-soak"
        assert pod["automountServiceAccountToken"] is is_breaking
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {*container["resources"]["requests"], *container["resources"]["limits"]} == {"cpu", "memory"}


def test_what_serves_is_probed_and_the_daemon_has_time_to_drain() -> None:
    daemon = pods("daemon")["try-soak"]
    assert daemon["terminationGracePeriodSeconds"] >= 360
    for name in ("try-soak", "try-soak-ledger", "try-soak-load"):
        (container,) = pods("daemon")[name]["containers"]
        assert {"livenessProbe", "readinessProbe"} <= set(container)
    assert daemon["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert pods("verifier")["try-soak"]["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/healthz"


def test_each_further_verifier_has_the_shard_of_its_pod_and_the_daemon_expects_it() -> None:
    named = [one for one in rendered("observed") if one["metadata"]["name"] == "try-soak-verifiers"]
    (one,) = (one for one in named if one["kind"] == "StatefulSet")
    first = pods("observed")["try-soak"]["containers"][0]["env"]
    shards, elsewhere = ({"name": f"SOAK_VERIFIER__{name}"} for name in ("SHARDS", "SHARDS_ELSEWHERE"))
    monitors = [one["spec"]["endpoints"][0] for one in rendered("observed") if one["kind"] == "ServiceMonitor"]
    assert (one["spec"]["replicas"], one["spec"]["ordinals"]) == (2, {"start": 2})
    (verifier,) = pod_of(one)["containers"]
    assert verifier["args"] == ["verify", "--each-run", "--shard", "$(SHARD)/3"]
    (shard,) = (variable["valueFrom"] for variable in verifier["env"] if variable["name"] == "SHARD")
    assert shard == {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    assert shards | {"value": "3"} in first
    assert elsewhere | {"value": "2"} in first
    assert {monitor["relabelings"][0]["replacement"] for monitor in monitors} == {"soak", "soak-verifiers"}


def test_rights_are_for_the_named_workloads_and_for_what_their_faults_need() -> None:
    assert "Role" not in kinds("daemon")
    for one in rendered("faults"):
        if one["kind"] == "Role":
            workload = one["metadata"]["name"].removeprefix("try-soak-")
            assert one["metadata"]["namespace"] == "memory"
            rights = {
                (resource, verb): rule["resourceNames"]
                for rule in one["rules"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
            assert {*rights} == {
                *(("statefulsets", verb) for verb in ("get", "list", "watch", "update")),
                *(("statefulsets/scale", verb) for verb in ("get", "update")),
                *(("pods", verb) for verb in ("get", "list", "watch", "delete")),
                ("pods/eviction", "create"),
                *(("networkpolicies", verb) for verb in ("get", "update")),
            }
            names = {name for found in rights.values() for name in found}
            assert names == {workload, f"{workload}-0", f"soak-partition-{workload}"}
    fewer = template("--values", str(CHART / "ci" / "faults-values.yaml"), "--set", "faults.allow={scale_to_zero}")
    verbs = [rule["verbs"] for one in objects_of(fewer.stdout) if one["kind"] == "Role" for rule in one["rules"]]
    assert verbs == [["get", "list", "watch"], ["get", "update"]] * 2


def test_the_rights_are_those_that_the_program_asks_for() -> None:
    (role,) = (
        one for one in rendered("faults") if one["metadata"]["name"] == "try-soak-redis" and one["kind"] == "Role"
    )
    workload = Workload.parse("memory/statefulset/redis")
    asked = {
        ("/".join(filter(None, (right["resource"], right.get("subresource")))), right["verb"], right["name"])
        for fault in IN_ITS_WORKLOAD
        for right in [*workload.rights(fault), {"resource": "statefulsets", "verb": "get", "name": "redis"}]
    }
    granted = {
        (resource, verb, name)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule["resourceNames"]
    }
    assert granted == asked


def test_the_rules_and_the_dashboards_are_those_of_the_repository() -> None:
    (rule,) = (one for one in rendered("observed") if one["kind"] == "PrometheusRule")
    files = (ROOT / "deploy" / "prometheus" / name for name in ("recording.yml", "alerts.yml"))
    assert rule["spec"]["groups"] == [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    shown = {
        name: text
        for one in rendered("observed")
        if one["kind"] == "ConfigMap"
        for name, text in one["data"].items()
        if name.endswith(".json")
    }
    dashboards = (ROOT / "grafana" / "dashboards").glob("*.json")
    assert shown == {path.name: path.read_text() for path in dashboards}


def test_prometheus_scrapes_the_port_that_is_served_under_the_job_that_the_alerts_ask_for() -> None:
    for values, kind, endpoints in (
        ("observed", "ServiceMonitor", "endpoints"),
        ("verifier", "PodMonitor", "podMetricsEndpoints"),
    ):
        monitor = next(one for one in rendered(values) if one["kind"] == kind)
        (endpoint,) = monitor["spec"][endpoints]
        assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "soak"}]
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (scraped,) = (
            one
            for one in rendered(values)
            if one["kind"] == ("Service" if kind == "ServiceMonitor" else "StatefulSet")
            and wanted <= one["metadata"]["labels"].items()
        )
        ports = scraped["spec"].get("ports") or pods(values)["try-soak"]["containers"][0]["ports"]
        assert endpoint["port"] in {port["name"] for port in ports}


def test_the_load_waits_until_the_daemon_is_ready() -> None:
    (waiting,) = pods("daemon")["try-soak-load-worker"]["initContainers"]
    answers = iter([503, 200])

    class Daemon(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(next(answers) if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Daemon) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        *words, url = waiting["command"]
        assert url == "http://try-soak:9464/readyz"
        here = url.replace("try-soak:9464", f"127.0.0.1:{server.server_port}")
        done = subprocess.run(
            [sys.executable, *words[1:], here], capture_output=True, text=True, timeout=30, check=False
        )
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert "503" in done.stdout


def test_the_page_describes_every_value() -> None:
    rows = values_described()
    shown = table("value", "docs/kubernetes.md")
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    assert shown == [[cell.strip("`") for cell in row] for row in rows], lines


def test_the_base_for_kustomize_is_what_the_chart_makes_and_is_valid() -> None:
    path = f"{os.path.dirname(tool('helm'))}:{os.environ['PATH']}"  # noqa: PTH120
    command = [sys.executable, str(ROOT / "deploy" / "kustomize" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    built = subprocess.run(
        [tool("kubectl"), "kustomize", str(ROOT / "deploy" / "kustomize" / "base")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    found = objects_of(built.stdout)
    assert {one["kind"] for one in found} >= {"Namespace", "StatefulSet", "Deployment", "NetworkPolicy"}
    for one in found:
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "soak"
        for version in VERSIONS:
            validate(one, version)
