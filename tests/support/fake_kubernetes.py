"""The smallest honest Kubernetes API: HTTPS, tokens, RBAC by names, versions, 409, watches; and one workload in it.

No cluster runs here. What the API does to the workload happens to a real server on this machine: its pod is that
server's process, and a policy that selects the pod is a proxy that lets nobody in. Objects that are written are held
to the schemas of Kubernetes. What is not shown by it: schedulers, kubelets, network plugins, admission.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import ssl
import uuid
from pathlib import Path
from typing import Any

from aiohttp import web

from soak.faults.partition import Partition
from soak.servers.local import LocalServers
from tests.support.charts import VERSIONS, validate

TOKEN = "a-token-of-the-service-account"  # noqa: S105  of the fake
NAMESPACE = "memory"
NAME = "redis"
LABELS = {"app": NAME}
HISTORY_MAX = 100

Object = dict[str, Any]


def refusal(status: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
    return web.json_response({**body, "message": message}, status=status)


class FakeKubernetes:
    """Serves one workload with one pod, and a policy that selects nothing yet."""

    def __init__(self, servers: LocalServers, rules: list[Object], *, kind: str = "statefulset") -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        """By resource and name."""
        self.rules = rules
        """Of the role that the service account has, in the one namespace."""
        self.disruptions_allowed = True
        self.conflicts = 0
        """So many writes find that somebody else was quicker."""
        self.forgets_versions = 0
        """So many watches are told that their version is too old."""
        self.asked: list[str] = []
        self._servers = servers
        self._version = 1
        self._events: list[tuple[int, str, Object]] = []
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self.resource = f"{kind}s"
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": NAME, "image": NAME}]}}
        spec: Object = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
        if kind == "statefulset":
            spec["serviceName"] = NAME
        workload = {"apiVersion": "apps/v1", "kind": {"statefulset": "StatefulSet", "deployment": "Deployment"}[kind]}
        self._put(self.resource, {**workload, "metadata": {"name": NAME}, "spec": spec, "status": {"replicas": 1}})
        idle = {"podSelector": {"matchLabels": {"soak/partition": "idle"}}, "policyTypes": ["Ingress"]}
        policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
        self._put("networkpolicies", {**policy, "metadata": {"name": f"soak-partition-{NAME}"}, "spec": idle})
        self._new_pod()

    @contextlib.asynccontextmanager
    async def serving(self, certificate: Path) -> Any:
        """Serve over TLS; yields the address."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
        context.load_cert_chain(certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert site._server is not None
        try:
            yield f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
        finally:
            await asyncio.gather(*self._tasks)
            await runner.cleanup()

    @property
    def pod(self) -> Object | None:
        return self.objects.get(("pods", f"{NAME}-0"))

    # The protocol -----------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:  # noqa: PLR0911  one for each status
        parts = request.path.strip("/").split("/")
        self.asked.append(f"{request.method} {request.path}")
        peer = request.get_extra_info("ssl_object")
        is_known = request.headers.get("Authorization") == f"Bearer {TOKEN}" or bool(peer and peer.getpeercert())
        if not is_known:
            return refusal(401, "Unauthorized", "Unauthorized")
        if parts[-1] == "selfsubjectaccessreviews":
            review = await request.json()
            validate(review, VERSIONS[1])
            wanted = review["spec"]["resourceAttributes"]
            review["status"] = {"allowed": wanted["namespace"] == NAMESPACE and self._may(wanted)}
            return web.json_response(review, status=201)
        group = "" if parts[0] == "api" else parts[1]
        namespace, resource, *rest = parts[parts.index("namespaces") + 1 :]
        name = rest[0] if rest else request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        verb = {"GET": "get", "PUT": "update", "DELETE": "delete", "POST": "create"}[request.method]
        if not rest:
            verb = "watch" if "watch" in request.query else "list"
        sub = rest[1] if len(rest) > 1 else ""
        wanted = {"group": group, "resource": resource, "subresource": sub, "name": name, "verb": verb}
        if namespace != NAMESPACE or not self._may(wanted):
            who = f'User "system:serviceaccount:soak:soak" cannot {verb} resource "{resource}"'
            return refusal(403, "Forbidden", f'{resource} "{name}" is forbidden: {who} in the namespace "{namespace}"')
        if verb == "watch":
            return await self._watch(request, resource, name)
        found = self.objects.get((resource, name))
        if found is None:
            return refusal(404, "NotFound", f'{resource} "{name}" not found')
        if verb == "get":
            return web.json_response(self._scale(found) if sub == "scale" else found)
        body = await request.json()
        if verb == "update":
            return self._update(resource, sub, found, body)
        options = body.get("deleteOptions", body)
        if sub == "eviction":
            validate(body, VERSIONS[1])
        validate({**options, "apiVersion": "meta/v1"}, VERSIONS[1])  # as the schema calls it
        return self._end(found, options, is_eviction=sub == "eviction")

    def _may(self, wanted: Object) -> bool:
        resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        return any(
            wanted["group"] in rule["apiGroups"]
            and resource in rule["resources"]
            and wanted["verb"] in rule["verbs"]
            and wanted["name"] in rule["resourceNames"]
            for rule in self.rules
        )

    def _scale(self, found: Object) -> Object:
        metadata = {key: found["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
        status = {"replicas": found["status"]["replicas"]}
        head = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata}
        return {**head, "spec": {"replicas": found["spec"]["replicas"]}, "status": status}

    def _update(self, resource: str, sub: str, found: Object, body: Object) -> web.Response:
        validate(body, VERSIONS[1])
        if self.conflicts:
            self.conflicts -= 1
            self._put(resource, found)
        if (
            body["metadata"]["resourceVersion"]
            != self.objects[resource, found["metadata"]["name"]]["metadata"]["resourceVersion"]
        ):
            message = "the object has been modified; please apply your changes to the latest version and try again"
            return refusal(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{NAME}": {message}')
        before = copy.deepcopy(found)
        changed = {**copy.deepcopy(found), "spec": {**found["spec"], **body["spec"]}}
        if resource == "networkpolicies":
            changed["spec"] = body["spec"]
        self._put(resource, changed)
        self._spawn(self._control(before, changed))
        return web.json_response(self._scale(changed) if sub == "scale" else changed)

    def _end(self, pod: Object, options: Object, *, is_eviction: bool) -> web.Response:
        wanted = options.get("preconditions", {}).get("uid")
        if wanted != pod["metadata"]["uid"]:
            return refusal(409, "Conflict", f"the UID in the precondition ({wanted}) does not match the UID in record")
        if is_eviction and not self.disruptions_allowed:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            return refusal(429, "TooManyRequests", message)
        self._spawn(self._replace_pod(is_kill=options.get("gracePeriodSeconds") == 1))
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"}, status=201)

    async def _watch(self, request: web.Request, resource: str, name: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if self.forgets_versions:
            self.forgets_versions -= 1
            gone = {"kind": "Status", "code": 410, "message": f"too old resource version: {since}"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        with contextlib.suppress(ConnectionError):
            while True:
                for version, kind, one in list(self._events):
                    if version > since and kind.endswith(f" {resource}") and one["metadata"]["name"] == name:
                        since = version
                        event = {"type": kind.split()[0], "object": one}
                        await response.write(json.dumps(event).encode() + b"\n")
                async with self._news:
                    await self._news.wait()
        return response

    # What controllers and nodes do ---------------------------------------------------------------------------------

    def _put(self, resource: str, one: Object, event: str = "MODIFIED") -> None:
        self._version += 1
        metadata = {"uid": str(uuid.uuid4()), "namespace": NAMESPACE, **one["metadata"]}
        one = {**one, "metadata": {**metadata, "resourceVersion": str(self._version)}}
        key = (resource, one["metadata"]["name"])
        if event == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = one
        self._events = [*self._events, (self._version, f"{event} {resource}", one)][-HISTORY_MAX:]
        self._spawn(self._tell())

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _spawn(self, work: Any) -> None:
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            work.close()  # nobody watches yet
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _new_pod(self) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{NAME}-0", "labels": LABELS}}
        self._put("pods", {**pod, "spec": {"containers": [{"name": NAME, "image": NAME}]}}, "ADDED")

    async def _replace_pod(self, *, is_kill: bool) -> None:
        server = self._servers.nodes["redis"]
        await (server.kill() if is_kill else server.stop_cleanly())
        if self.pod is not None:
            self._put("pods", self.pod, "DELETED")
        self._new_pod()
        await server.start_again()

    async def _control(self, before: Object, after: Object) -> None:
        if after["kind"] == "NetworkPolicy":
            is_cut = after["spec"]["podSelector"].get("matchLabels") == LABELS and not after["spec"].get("ingress")
            partition = Partition()
            await (partition.inject if is_cut else partition.heal)(self._servers, "redis")
            return
        old, new = before["spec"]["replicas"], after["spec"]["replicas"]
        if old != new:
            if new == 0:
                await self._servers.nodes["redis"].stop_cleanly()
                if self.pod is not None:
                    self._put("pods", self.pod, "DELETED")
            else:
                self._new_pod()
                await self._servers.nodes["redis"].start_again()
            current = self.objects[self.resource, NAME]
            self._put(self.resource, {**current, "status": {"replicas": new}})
        elif before["spec"]["template"] != after["spec"]["template"]:
            await self._replace_pod(is_kill=False)
