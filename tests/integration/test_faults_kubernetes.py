"""Faults of given servers in Kubernetes, through its API: a fake one that speaks the protocol, before a real Redis."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis.exceptions
import yaml

from soak import faults
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.faults.healing import Notes
from soak.faults.window import heal_leftovers
from soak.servers.external.kubernetes import Access, KubernetesApi, KubernetesError
from soak.servers.external.servers import ExternalServers
from soak.servers.external.workloads import Workload
from tests.support.fake_kubernetes import NAME, NAMESPACE, TOKEN, FakeKubernetes
from tests.support.servers.breaking import client_of, running, serving
from tests.support.servers.certificates import make_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

pytestmark = pytest.mark.long  # each has a server of its own
ALL = ("pod_delete", "pod_evict", "scale_to_zero", "rollout_restart", "policy_partition")
REPLACING = ("pod_delete", "pod_evict", "rollout_restart")
WORKLOAD = Workload(NAMESPACE, "statefulset", NAME)


def rules(*allowed: str, kind: str = "statefulset") -> list[dict[str, Any]]:
    """Return a role that is enough for these faults and for nothing else."""
    workload = Workload(NAMESPACE, kind, NAME)
    wanted = [right for fault in allowed for right in workload.rights(fault)]
    own = {"group": "apps", "resource": f"{kind}s", "name": NAME}
    wanted += [{**own, "verb": verb} for verb in ("get", "list", "watch")]
    return [
        {
            "apiGroups": [one["group"]],
            "resources": ["/".join(filter(None, (one["resource"], one.get("subresource"))))],
            "resourceNames": [one["name"]],
            "verbs": [one["verb"]],
        }
        for one in wanted
    ]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the API's, its authority's, and a client's certificate: one for all."""
    return make_certificate(tmp_path_factory.mktemp("certificate"), "soak")


def kubeconfig(folder: Path, server: str, certificate: Path, **user: str) -> Path:
    path = folder / "kubeconfig"
    certificates = certificate.read_text().partition("-----BEGIN PRIVATE")[0]
    data = base64.b64encode(certificates.encode()).decode()
    content = {
        "current-context": "try",
        "contexts": [{"name": "try", "context": {"cluster": "fake", "user": "soak"}}],
        "clusters": [{"name": "fake", "cluster": {"server": server, "certificate-authority-data": data}}],
        "users": [{"name": "soak", "user": user or {"token": TOKEN}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


class Cluster:
    """A real Redis, the fake API before it, and the settings to reach it."""

    def __init__(self, folder: Path, url: str, api: FakeKubernetes, config: Path) -> None:
        self.api = api
        self.url = url
        self._folder = folder
        self._config = config

    def given(
        self, *allowed: str, workload: str = f"{NAMESPACE}/statefulset/{NAME}"
    ) -> AbstractAsyncContextManager[ExternalServers]:
        servers = ExternalServers(
            self._folder / "soak",
            {"redis": self.url},
            allow_faults=allowed,
            workloads={"redis": workload},
            kubeconfig=self._config,
        )
        return serving(servers, "redis")


@contextlib.asynccontextmanager
async def cluster(folder: Path, certificate: Path, *may: str, kind: str = "statefulset") -> AsyncIterator[Cluster]:
    async with running(folder / "operator", "redis", proxied=True) as operator:
        api = FakeKubernetes(operator, rules(*may, kind=kind), kind=kind)
        async with api.serving(certificate) as address:
            yield Cluster(folder, operator.nodes["redis"].url, api, kubeconfig(folder, address, certificate))


@pytest.mark.parametrize("name", [*REPLACING, "scale_to_zero"])
async def test_the_server_is_another_process_afterwards_and_has_its_data(
    tmp_path: Path, certificate: Path, name: str
) -> None:
    fault = faults.ALL[name]
    async with cluster(tmp_path, certificate, name) as one, one.given(name) as servers:
        async with client_of(one.url) as client:
            await client.rpush("session", "kept")
            before = (await client.info("server"))["run_id"]
        assert one.api.pod is not None
        pod = one.api.pod["metadata"]["uid"]
        assert fault.unavailable(servers, "redis") is None
        one.api.conflicts = 1  # somebody else changes the object first: it is read again
        one.api.forgets_versions = 1
        await fault.inject(servers, "redis")
        if fault.down:
            assert one.api.pod is None
            with pytest.raises(ServerUnreachableError):
                await servers.telemetry("redis")
        await fault.heal(servers, "redis")
        async with client_of(one.url) as client:
            assert await client.lrange("session", 0, -1) == ["kept"]
            assert (await client.info("server"))["run_id"] != before
        assert one.api.pod is not None
        assert one.api.pod["metadata"]["uid"] != pod
        assert one.api.objects["statefulsets", NAME]["spec"]["replicas"] == 1


async def test_a_policy_lets_nobody_in_until_it_is_taken_back(tmp_path: Path, certificate: Path) -> None:
    fault = faults.ALL["policy_partition"]
    async with cluster(tmp_path, certificate, fault.name) as one, one.given(fault.name) as servers:
        assert fault.unavailable(servers, "redis") is None
        before = one.api.objects["networkpolicies", f"soak-partition-{NAME}"]["spec"]
        await fault.inject(servers, "redis")
        async with client_of(one.url, 0.3) as client:
            with pytest.raises(redis.exceptions.TimeoutError):
                await client.ping()
        await fault.heal(servers, "redis")
        assert one.api.objects["networkpolicies", f"soak-partition-{NAME}"]["spec"] == before
        async with client_of(one.url) as client:
            assert await client.ping()


async def test_a_policy_that_nobody_enforces_is_no_fault(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = faults.ALL["policy_partition"]
    monkeypatch.setattr("soak.faults.policy_partition.EFFECT_SECONDS_MAX", 0.3)
    async with cluster(tmp_path, certificate, fault.name) as one, one.given(fault.name) as servers:

        async def nothing(before: dict[str, Any], after: dict[str, Any]) -> None: ...

        one.api._control = nothing
        with pytest.raises(ServerUnreachableError, match="enforces NetworkPolicies"):
            await fault.inject(servers, "redis")
        await fault.heal(servers, "redis")


async def test_without_the_right_to_it_a_fault_is_refused_with_one_line(tmp_path: Path, certificate: Path) -> None:
    async with cluster(tmp_path, certificate) as one, one.given(*ALL, "crash") as servers:
        for name in ALL:
            reason = faults.ALL[name].unavailable(servers, "redis")
            assert reason is not None
            first = WORKLOAD.rights(name)[0]
            assert f"soak may not {first['verb']} {first['resource']}" in reason
            assert reason.endswith("grant it by a Role, as faults.workloads of the chart does")
            with pytest.raises(SoakError):
                await faults.ALL[name].inject(servers, "redis")
        assert "testbed.allow_faults" in str(faults.ALL["latency"].unavailable(servers, "redis"))
        assert "needs more than its workload" in str(faults.ALL["crash"].unavailable(servers, "redis"))
        assert await servers.telemetry("redis"), "nothing happened to it"


async def test_a_workload_that_is_not_there_or_not_for_us_stops_the_start(tmp_path: Path, certificate: Path) -> None:
    async with cluster(tmp_path, certificate, "pod_delete") as one:
        with pytest.raises(UsageError, match="which soak may not read; grant it get, list and watch by a Role"):
            async with one.given("pod_delete", workload=f"{NAMESPACE}/statefulset/other"):
                pass
        del one.api.objects["statefulsets", NAME]
        with pytest.raises(UsageError, match="and there is none; kubectl -n memory get statefulsets lists them"):
            async with one.given("pod_delete"):
                pass


async def test_pods_without_a_name_of_their_own_are_not_deleted(tmp_path: Path, certificate: Path) -> None:
    async with cluster(tmp_path, certificate, *ALL) as one:
        one.api.objects["statefulsets", NAME]["spec"]["replicas"] = 3
        async with one.given(*ALL) as servers:
            assert "has 3 pods" in str(faults.ALL["pod_delete"].unavailable(servers, "redis"))
            assert faults.ALL["rollout_restart"].unavailable(servers, "redis") is None
        del one.api.objects["networkpolicies", f"soak-partition-{NAME}"]
        async with one.given(*ALL) as servers:
            assert "there is no NetworkPolicy" in str(faults.ALL["policy_partition"].unavailable(servers, "redis"))
    async with (
        cluster(tmp_path / "other", certificate, "rollout_restart", kind="deployment") as one,
        one.given("pod_evict", "rollout_restart", workload=f"{NAMESPACE}/deployment/{NAME}") as servers,
    ):
        assert "pods of a deployment have no names" in str(faults.ALL["pod_evict"].unavailable(servers, "redis"))
        assert faults.ALL["rollout_restart"].unavailable(servers, "redis") is None


async def test_a_disruption_budget_is_kept_and_a_replaced_pod_is_left_alone(tmp_path: Path, certificate: Path) -> None:
    async with (
        cluster(tmp_path, certificate, "pod_evict", "pod_delete") as one,
        one.given("pod_evict", "pod_delete") as servers,
    ):
        one.api.disruptions_allowed = False
        with pytest.raises(ServerUnreachableError, match="a PodDisruptionBudget protects it"):
            await faults.ALL["pod_evict"].inject(servers, "redis")
        await faults.ALL["pod_evict"].heal(servers, "redis")
        api = KubernetesApi(Access.of_kubeconfig(tmp_path / "kubeconfig"))
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "of another"}}
        with pytest.raises(KubernetesError, match="does not match the UID"):
            await api.delete(f"{WORKLOAD.pods}/{NAME}-0", options)
        await api.close()
        assert await servers.telemetry("redis")


async def test_the_next_start_scales_back_what_a_killed_soak_left_at_zero(tmp_path: Path, certificate: Path) -> None:
    fault = faults.ALL["scale_to_zero"]
    async with cluster(tmp_path, certificate, fault.name) as one:
        async with one.given(fault.name) as servers:
            Notes(servers.nodes["redis"]).begin(fault.name)
            await fault.inject(servers, "redis")
        async with one.given(fault.name) as servers:
            assert not servers.nodes["redis"].is_running
            assert [note.fault for note in await heal_leftovers(servers)] == [fault.name]
            assert await servers.telemetry("redis")
        assert one.api.objects["statefulsets", NAME]["spec"]["replicas"] == 1


async def test_access_is_by_token_or_certificate_and_everything_else_is_one_line(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, certificate, "pod_delete") as one:
        address = yaml.safe_load((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]

        async def reads(access: Access) -> bool:
            api = KubernetesApi(access)
            try:
                return bool(await api.get(WORKLOAD.path))
            finally:
                await api.close()

        by_certificate = {"client-certificate": str(certificate), "client-key": str(certificate)}
        assert await reads(Access.of_kubeconfig(kubeconfig(tmp_path, address, certificate, **by_certificate)))
        account = tmp_path / "account"
        account.mkdir()
        (account / "token").write_text(f"{TOKEN}\n")
        (account / "ca.crt").write_text(certificate.read_text())
        host, _, port = address.removeprefix("https://").partition(":")
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        assert await reads(Access.of_pod(environment, account))
        (account / "token").write_text("an old one")
        with pytest.raises(KubernetesError, match=r"\(401\): Unauthorized"):
            await reads(Access.of_pod(environment, account))
        with pytest.raises(KubernetesError, match=r"does not answer.*certificate"):
            await reads(Access(server=address, token=TOKEN))
        del one
    with pytest.raises(KubernetesError, match="does not answer"):
        await reads(Access(server=address, token=TOKEN))
    with pytest.raises(UsageError, match="this is no pod with a service account"):
        Access.of_pod({}, tmp_path)
    with pytest.raises(UsageError, match="no token and no client certificate"):
        Access.of_kubeconfig(kubeconfig(tmp_path, address, certificate, exec="aws"))
    (tmp_path / "kubeconfig").write_text("contexts: []")
    with pytest.raises(UsageError, match="cannot be used \\(no 'current-context'\\)"):
        Access.of_kubeconfig(tmp_path / "kubeconfig")
