"""The few requests to a Kubernetes API that faults need, over plain HTTPS: read, change, delete, evict, watch.

Who asks is the pod's service account, or the user of a kubeconfig: by token or by client certificate.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec

from soak.errors import ServerUnreachableError, UsageError

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REQUEST_SECONDS_MAX = 30.0
WATCH_SECONDS_MAX = 60
"""The server ends a watch after this time, and it is begun anew."""
CONFLICTS_MAX = 5
"""So often somebody else may change an object between our reading and our writing it."""
MESSAGE_CHARACTERS_MAX = 300
LINE_BYTES_MAX = 2**21
"""Of one event; objects are at most 1.5 MiB."""

Object = dict[str, Any]


class KubernetesError(ServerUnreachableError):
    """The API refused something, or did not answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        """HTTP's; 0: there was no answer."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API is, and who asks."""

    server: str
    authority: str | None = None
    """Certificates of the authority, as PEM; None: those that this machine trusts."""
    token: str = ""
    token_file: Path | None = None
    """Read for each request: the kubelet replaces it."""
    certificate: bytes = b""
    """Of the client, with its key, as PEM."""

    @classmethod
    def of_pod(cls, environment: Mapping[str, str] = os.environ, folder: Path = ACCOUNT_FOLDER) -> Self:
        """Return what every pod with a service account is given; raises `UsageError` outside of one."""
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
        token = folder / "token"
        if not host or not token.exists():
            raise UsageError(
                "testbed.workloads are broken through the Kubernetes API, and this is no pod with a service account; "
                "mount its token (automountServiceAccountToken), or name a file as testbed.kubeconfig"
            )
        shown = f"[{host}]" if ":" in host else host
        authority = (folder / "ca.crt").read_text()
        return cls(server=f"https://{shown}:{port}", authority=authority, token_file=token)

    @classmethod
    def of_kubeconfig(cls, path: Path) -> Self:
        """Read the current context of a kubeconfig; raises `UsageError` for what is not understood."""
        try:
            import yaml  # noqa: PLC0415  needed for this file only
        except ModuleNotFoundError:
            raise UsageError("testbed.kubeconfig needs PyYAML; install soak[kubernetes]") from None
        try:
            content = yaml.safe_load(path.read_text())
            context = _named(content, "context", content["current-context"])
            cluster = _named(content, "cluster", context["cluster"])
            user = _named(content, "user", context["user"])
            server = str(cluster["server"])
            authority = _part(cluster, "certificate-authority", path.parent)
            certificate = _part(user, "client-certificate", path.parent)
            key = _part(user, "client-key", path.parent)
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise UsageError(f"testbed.kubeconfig: {path} cannot be used ({what[:MESSAGE_CHARACTERS_MAX]})") from None
        token_file = user.get("tokenFile")
        if not (certificate or user.get("token") or token_file):
            raise UsageError(
                f"testbed.kubeconfig: {path} has no token and no client certificate for its user; "
                "make a token with 'kubectl create token', or run soak in the cluster"
            )
        if cluster.get("insecure-skip-tls-verify"):
            raise UsageError(f"testbed.kubeconfig: {path} does not check the server's certificate; name its authority")
        return cls(
            server=server.rstrip("/"),
            authority=authority.decode() if authority else None,
            token=user.get("token") or "",
            token_file=path.parent / token_file if token_file else None,
            certificate=certificate + b"\n" + key if certificate else b"",
        )

    def headers(self) -> dict[str, str]:
        token = self.token_file.read_text().strip() if self.token_file is not None else self.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority)
        if self.certificate:
            # Python reads it from a file only; nobody else may, and it is gone at once.
            with tempfile.NamedTemporaryFile(prefix="soak-client-", suffix=".pem") as file:
                file.write(self.certificate)
                file.flush()
                context.load_cert_chain(file.name)
        return context


def _named(content: Any, what: str, name: str) -> dict[str, Any]:
    for one in content[f"{what}s"]:
        if one["name"] == name:
            found: dict[str, Any] = one[what]
            return found
    raise ValueError(f"there is no {what} {name!r}")


def _part(content: Mapping[str, str], name: str, folder: Path) -> bytes:
    """Return what is there in the file itself, or in one that it names."""
    if encoded := content.get(f"{name}-data"):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError(f"{name}-data is not base64") from None
    return (folder / content[name]).read_bytes() if name in content else b""


class KubernetesApi:
    """A connection to one API server."""

    def __init__(self, access: Access) -> None:
        try:
            self._tls = access.tls()
        except (ssl.SSLError, ValueError) as error:
            raise UsageError(f"certificates for the Kubernetes API cannot be read ({error})") from None
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, path: str) -> Object:
        return await self._ask("GET", path)

    async def post(self, path: str, body: Object) -> Object:
        return await self._ask("POST", path, body)

    async def delete(self, path: str, body: Object) -> Object:
        return await self._ask("DELETE", path, body)

    async def change(self, path: str, edit: Callable[[Object], None]) -> Object:
        """Read an object, change it and write it back; again where somebody else has changed it in between."""
        for _ in range(CONFLICTS_MAX):
            found = await self.get(path)
            edit(found)
            try:
                return await self._ask("PUT", path, found)
            except KubernetesError as error:
                if error.status != 409:
                    raise
                problem = error
        raise problem

    async def may(self, attributes: Mapping[str, str]) -> bool:
        """Ask whether we may do something; everybody may ask that."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": dict(attributes)},
        }
        answer = await self.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool(answer.get("status", {}).get("allowed"))

    async def watch(self, path: str, name: str, since: str) -> AsyncGenerator[Object]:
        """Yield the events of one object after a version of it, until the server ends the watch or forgot the version.

        By the field selector, so that a right to this name is enough.
        """
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": since,
            "timeoutSeconds": str(WATCH_SECONDS_MAX),
        }
        try:
            async with self._request("GET", path, query=query, seconds=2 * WATCH_SECONDS_MAX) as response:
                await _check(response, "GET", path)
                async for line in response.content:
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        return  # mostly 410: who watches reads the object anew
                    yield event
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return

    async def _ask(self, method: str, path: str, body: Object | None = None) -> Object:
        try:
            async with self._request(method, path, body=body, seconds=REQUEST_SECONDS_MAX) as response:
                await _check(response, method, path)
                found: Object = msgspec.json.decode(await response.read())
                return found
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            what = str(error) or type(error).__name__
            raise KubernetesError(f"the Kubernetes API at {self._access.server} does not answer ({what})") from error

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        seconds: float,
    ) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls), read_bufsize=LINE_BYTES_MAX
            )
        return self._session.request(
            method,
            self._access.server + path,
            params=query,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Accept": "application/json", "Content-Type": "application/json", **self._access.headers()},
            timeout=aiohttp.ClientTimeout(total=seconds),
            allow_redirects=False,
        )


async def _check(response: aiohttp.ClientResponse, method: str, path: str) -> None:
    if response.status < 300:
        return
    try:
        message = str(msgspec.json.decode(await response.read())["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message = response.reason or "no reason given"
    shown = " ".join(message.split())[:MESSAGE_CHARACTERS_MAX]
    raise KubernetesError(f"the Kubernetes API refused {method} {path} ({response.status}): {shown}", response.status)


async def until(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Wait for something; raises `KubernetesError` that names it where it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            await condition()
    except TimeoutError:
        raise KubernetesError(f"{what} within {seconds:.0f} s") from None
