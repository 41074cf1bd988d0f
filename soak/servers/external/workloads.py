"""Given servers that run in Kubernetes and whose workloads the operator has named: these, and no others, are broken.

Nothing is made there and nothing is removed but the pod that a fault is about, which its controller makes again. Each
request names its object, so rights to these names are enough: docs/kubernetes.md lists them.
"""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.external.backend import IN_ITS_WORKLOAD, IN_THE_WAY, OTHERS, OVER_THE_WIRE, Allowance, ExternalBackend
from soak.servers.external.kubernetes import KubernetesApi, KubernetesError, Object, until
from soak.servers.kinds import ServerKind
from soak.servers.server import ServerState

GONE_SECONDS_MAX = 600.0
"""For a pod to end: its grace period, and what its node takes."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` changes, too."""
IDLE = {"matchLabels": {"soak/partition": "idle"}}
"""What the policy of a partition selects while there is none: no pod."""
POD_FAULTS = frozenset({"pod_delete", "pod_evict"})


class Workload(msgspec.Struct, frozen=True):
    """The name of a workload: NAMESPACE/statefulset/NAME or NAMESPACE/deployment/NAME."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what the settings have checked."""
        return cls(*text.split("/"))

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name} in namespace {self.namespace}"

    @property
    def collection(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{self.kind}s"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def pod(self) -> str:
        """The only pod of a StatefulSet with one replica."""
        return f"{self.name}-0"

    @property
    def policy(self) -> str:
        return f"soak-partition-{self.name}"

    @property
    def policy_path(self) -> str:
        return f"/apis/networking.k8s.io/v1/namespaces/{self.namespace}/networkpolicies/{self.policy}"

    def rights(self, fault: str) -> list[dict[str, str]]:
        """Return what one must be allowed to do for a fault, as an access review asks it."""
        own = {"group": "apps", "resource": f"{self.kind}s", "name": self.name}
        pod = {"group": "", "resource": "pods", "name": self.pod}
        policy = {"group": "networking.k8s.io", "resource": "networkpolicies", "name": self.policy}
        watched = [{**pod, "verb": verb} for verb in ("get", "list", "watch")]
        wanted = {
            "pod_delete": [*watched, {**pod, "verb": "delete"}],
            "pod_evict": [*watched, {**pod, "subresource": "eviction", "verb": "create"}],
            "scale_to_zero": [
                *({**own, "subresource": "scale", "verb": verb} for verb in ("get", "update")),
                *({**own, "verb": verb} for verb in ("list", "watch")),
            ],
            "rollout_restart": [{**own, "verb": "update"}],
            "policy_partition": [{**policy, "verb": verb} for verb in ("get", "update")],
        }
        return [{**one, "namespace": self.namespace} for one in wanted.get(fault, [])]


class WorkloadAllowance(Allowance):
    """What may happen to a given server whose workload is named: what is allowed, possible, and within our rights."""

    def __init__(self, faults: frozenset[str]) -> None:
        super().__init__(faults, None)
        self.lacking: dict[str, str] = {}
        """By fault: why it cannot be done there."""

    def refuses(self, fault: str) -> str | None:
        if fault not in self.faults:
            return f"{OTHERS}; to allow it: --set testbed.allow_faults={fault}"
        if fault not in IN_ITS_WORKLOAD | OVER_THE_WIRE | IN_THE_WAY:
            possible = ", ".join(sorted(IN_ITS_WORKLOAD | OVER_THE_WIRE | IN_THE_WAY))
            return f"{fault} needs more than its workload, which is not ours; possible are {possible}"
        return self.lacking.get(fault)


class NamedWorkload(ExternalBackend):
    """A workload of the operator's, by its name."""

    restarts_elsewhere = True

    def __init__(
        self, kind: ServerKind, url: str, workload: Workload, folder: Path, faults: frozenset[str], api: KubernetesApi
    ) -> None:
        super().__init__(f"the given {kind.name} server in {workload.text}", folder, {}, log_name=f"{kind.name}.log")
        self.url: str = url
        self.workload = workload
        self.allowance: WorkloadAllowance = WorkloadAllowance(faults)
        self._api = api
        self._kind = kind.name

    async def open(self) -> ServerState:
        """Find the workload and what we may do with it; raises `SoakError` where it is not there or not for us."""
        try:
            found = await self._api.get(self.workload.path)
        except KubernetesError as error:
            if error.status == 404:
                raise UsageError(
                    f"testbed.workloads names {self.workload.text} for {self._kind}, and there is none; "
                    f"kubectl -n {self.workload.namespace} get {self.workload.kind}s lists them"
                ) from error
            if error.status in (401, 403):
                raise UsageError(
                    f"testbed.workloads names {self.workload.text} for {self._kind}, which soak may not read; "
                    f"grant it get, list and watch by a Role, as faults.workloads of the chart does ({error})"
                ) from error
            raise
        for fault in sorted(self.allowance.faults & IN_ITS_WORKLOAD):
            if (why := await self._lacks(fault, found)) is not None:
                self.allowance.lacking[fault] = why
        return ServerState.RUNNING if found["spec"].get("replicas", 1) else ServerState.STOPPED

    async def close(self) -> None:
        await self._api.close()

    async def _lacks(self, fault: str, found: Object) -> str | None:
        if fault in POD_FAULTS and self.workload.kind != "statefulset":
            return (
                f"the pods of a {self.workload.kind} have no names that rights could be limited to; use rollout_restart"
            )
        if fault in POD_FAULTS and (replicas := found["spec"].get("replicas", 1)) > 1:
            return (
                f"{self.workload.text} has {replicas} pods, and which of them serves is not known; use rollout_restart"
            )
        for right in self.workload.rights(fault):
            if not await self._api.may(right):
                resource = "/".join(filter(None, (right["resource"], right.get("subresource"))))
                return (
                    f"soak may not {right['verb']} {resource} {right['name']} in namespace {right['namespace']}; "
                    "grant it by a Role, as faults.workloads of the chart does"
                )
        if fault == "policy_partition":
            try:
                await self._api.get(self.workload.policy_path)
            except KubernetesError as error:
                if error.status != 404:
                    raise
                return (
                    f"there is no NetworkPolicy {self.workload.policy} in namespace {self.workload.namespace}; "
                    "the chart makes one that selects nothing, docs/kubernetes.md shows it"
                )
        return None

    # What faults do ---------------------------------------------------------------------------------------------

    async def delete_pod(self, grace_seconds: float) -> None:
        """Delete the pod, and return when it is gone; its controller makes another."""
        pod = await self._pod()
        await self._api.delete(self._pod_path, {**_same(pod), "gracePeriodSeconds": int(grace_seconds)})
        await self._gone(pod)

    async def evict_pod(self) -> None:
        """Evict the pod as a drained node does, and return when it is gone."""
        pod = await self._pod()
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": self.workload.pod, "namespace": self.workload.namespace},
            "deleteOptions": _same(pod),
        }
        try:
            await self._api.post(f"{self._pod_path}/eviction", eviction)
        except KubernetesError as error:
            if error.status != 429:
                raise
            raise ServerUnreachableError(
                f"pod {self.workload.pod} was not evicted: a PodDisruptionBudget protects it; "
                "let that one go, or use pod_delete"
            ) from error
        await self._gone(pod)

    async def restart_rollout(self) -> None:
        """Have all pods replaced, as `kubectl rollout restart` does; that goes on afterwards."""

        def restart(found: Object) -> None:
            metadata = found["spec"]["template"].setdefault("metadata", {})
            now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
            metadata.setdefault("annotations", {})[RESTARTED_AT] = now

        await self._api.change(self.workload.path, restart)

    async def replicas(self) -> int:
        scale = await self._api.get(f"{self.workload.path}/scale")
        return int(scale["spec"].get("replicas", 0))

    async def scale(self, replicas: int) -> None:
        """Have so many pods; to none it returns when all are gone."""
        await self._api.change(f"{self.workload.path}/scale", lambda found: found["spec"].update(replicas=replicas))
        if replicas == 0:
            await until(self._until_empty, GONE_SECONDS_MAX, f"the pods of {self.workload.text} did not end")

    async def isolate(self) -> None:
        """Let no connection in to any pod of the workload."""
        selector = (await self._api.get(self.workload.path))["spec"]["selector"]

        def select(found: Object) -> None:
            found["spec"] = {"podSelector": selector, "policyTypes": ["Ingress"]}

        await self._api.change(self.workload.policy_path, select)

    async def rejoin(self) -> None:
        def select(found: Object) -> None:
            found["spec"] = {"podSelector": IDLE, "policyTypes": ["Ingress"]}

        await self._api.change(self.workload.policy_path, select)

    # How it is seen -----------------------------------------------------------------------------------------------

    @property
    def _pod_path(self) -> str:
        return f"{self.workload.pods}/{self.workload.pod}"

    async def _pod(self) -> Object:
        try:
            return await self._api.get(self._pod_path)
        except KubernetesError as error:
            if error.status != 404:
                raise
            raise ServerUnreachableError(f"there is no pod {self.workload.pod} of {self.workload.text} now") from error

    async def _gone(self, pod: Object) -> None:
        """Wait until this pod is no more; another of its name may be there already."""
        uid = pod["metadata"]["uid"]

        async def is_gone() -> None:
            while True:
                try:
                    found = await self._api.get(self._pod_path)
                except KubernetesError as error:
                    if error.status == 404:
                        return
                    raise
                if found["metadata"]["uid"] != uid:
                    return
                since = found["metadata"]["resourceVersion"]
                async with contextlib.aclosing(self._api.watch(self.workload.pods, self.workload.pod, since)) as events:
                    async for event in events:
                        if event["type"] == "DELETED" or event["object"]["metadata"]["uid"] != uid:
                            return

        await until(is_gone, GONE_SECONDS_MAX, f"pod {self.workload.pod} of {self.workload.text} did not end")

    async def _until_empty(self) -> None:
        while True:
            found = await self._api.get(self.workload.path)
            if not found.get("status", {}).get("replicas", 0):
                return
            since = found["metadata"]["resourceVersion"]
            async with contextlib.aclosing(
                self._api.watch(self.workload.collection, self.workload.name, since)
            ) as events:
                async for event in events:
                    if not event["object"].get("status", {}).get("replicas", 0):
                        return

    # What a backend is asked, and what is not for a workload ----------------------------------------------------------

    def refuses(self, what: str) -> str | None:
        if what == "configured":
            return super().refuses(what)
        return f"{OTHERS}, and its processes and its disk are not ours"


def _same(pod: Object) -> Object:
    """Return what makes the API refuse if the pod is another one by now."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod["metadata"]["uid"]}}
