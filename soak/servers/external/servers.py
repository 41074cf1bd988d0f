"""Servers that already run: nothing is started, and nothing is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from soak.errors import UsageError
from soak.hosts import SENTINEL_PORT, hosts_of, is_sentinel
from soak.servers import state
from soak.servers.external.backend import (
    CONNECTION_EXHAUSTION,
    IN_THE_WAY,
    OTHERS,
    PATRONI_CHANGES,
    Allowance,
    ExternalBackend,
    OperatorBackend,
    OperatorCommand,
)
from soak.servers.external.patroni import GivenPatroni
from soak.servers.kinds import BackendKind, ServerKind, kind_of
from soak.servers.ports import HOST
from soak.servers.server import Server
from soak.servers.servers import FOLDER_NAME
from soak.servers.state import Pinned


class ExternalServers:
    """Servers by their addresses. Faults happen to them only where the operator allows each by name."""

    backend = BackendKind.EXTERNAL

    def __init__(
        self,
        data_dir: Path,
        addresses: Mapping[str, str],
        *,
        allow_faults: Iterable[str] = (),
        restart_command: OperatorCommand | None = None,
        proxy_host: str = HOST,
        containers: Mapping[str, str] | None = None,
        workloads: Mapping[str, str] | None = None,
        kubeconfig: Path | None = None,
        patroni: Sequence[str] = (),
    ) -> None:
        """Take servers by kind; the command restarts the one that replaces `{server}` in it.

        Where a fault of the network is allowed, our clients come through a proxy that listens on the given address.
        Servers whose containers are named are broken through Docker instead of by the command, and those whose
        workloads are named through the Kubernetes API, as the pod's service account or the kubeconfig's user. The
        leader of a PostgreSQL is changed through the Patroni at these addresses.
        """
        if restart_command is not None and len(addresses) > 1 and not restart_command.names_the_server:
            raise UsageError(
                "testbed.restart_command does not say which server it restarts; "
                "several were given, so write {server} where the kind of server belongs"
            )
        self.no_power_cuts: str | None = OTHERS
        self.namespace: str | None = None
        self._allowance = Allowance(frozenset(allow_faults), restart_command)
        self._containers = containers or {}
        self._workloads = workloads or {}
        self._kubeconfig = kubeconfig
        self.patroni = patroni
        self._addresses = addresses
        self._proxy_host = proxy_host
        self._state = state.ServersState()
        self._folder = data_dir.resolve() / FOLDER_NAME / BackendKind.EXTERNAL
        self._nodes: dict[str, Server] = {}
        self._open: list[ExternalBackend] = []

    @property
    def nodes(self) -> Mapping[str, Server]:
        return self._nodes

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        """Take the servers of these kinds as they are; whether they answer shows when they are first used."""
        for name in kinds:
            if name not in self._addresses:
                raise UsageError(f"no address of a {name} server was given")
            if name not in self._nodes:
                self._nodes[name] = await self._take(kind_of(name), self._addresses[name])
                await self._make_ready(self._nodes[name])
        return {name: server.url for name, server in self._nodes.items()}

    async def stop(self) -> None:
        for server in self._nodes.values():
            await server.close_proxies()
        self._nodes.clear()
        while self._open:
            await self._open.pop().close()

    async def discard(self) -> None:
        """Remove nothing: the data is not ours."""

    async def telemetry(self, name: str) -> dict[str, str]:
        return await self._nodes[name].telemetry()

    def refuses(self, fault: str, target: str) -> str | None:
        if target not in self._nodes:
            return None
        server = self._nodes[target]
        return server.backend.refuses_fault(fault) or (server.no_proxy if fault in IN_THE_WAY else None)

    async def _take(self, kind: ServerKind, url: str) -> Server:
        backend: ExternalBackend = OperatorBackend(kind, url, self._folder / kind.name, self._allowance)
        is_named = kind.name in {*self._containers, *self._workloads}
        if kind.name in self._workloads:
            backend = self._workload(kind, url)
        if kind.name in self._containers:
            # Imported only where it is used: the client of Docker is a heavy one.
            from soak.servers.external.containers import NamedContainer  # noqa: PLC0415

            name = self._containers[kind.name]
            backend = NamedContainer(kind, url, name, self._folder / kind.name, self._allowance.faults)
        self._open.append(backend)
        hosts = hosts_of(url)
        port = hosts[0].port if hosts else None
        usual = SENTINEL_PORT if is_sentinel(url) else kind.port
        pinned = Pinned(port or usual, urlsplit(url).password or "")
        server = kind.support.external(self, kind, pinned, backend)
        server.state = await backend.open()
        server.no_proxy = "none of the faults that need a proxy is allowed"
        if is_named and server.is_running:
            await server.learn_configuration()
        return server

    def _workload(self, kind: ServerKind, url: str) -> ExternalBackend:
        # Imported only where it is used, like the client of Docker.
        from soak.servers.external.kubernetes import Access, KubernetesApi  # noqa: PLC0415
        from soak.servers.external.workloads import NamedWorkload, Workload  # noqa: PLC0415

        access = Access.of_pod() if self._kubeconfig is None else Access.of_kubeconfig(self._kubeconfig)
        workload = Workload.parse(self._workloads[kind.name])
        folder, faults = self._folder / kind.name, self._allowance.faults
        return NamedWorkload(kind, url, workload, folder, faults, KubernetesApi(access))

    async def _make_ready(self, server: Server) -> None:
        """Do what the faults that are allowed will need."""
        if not server.kind.is_under_test:
            return
        if not server.kind.is_proxied_when_given:
            server.no_proxy = "faults of the network between us and a web service are not done yet"
            return
        if self._allowance.wants_proxies:
            await self._put_proxy_before(server)
        if self._allowance.faults & PATRONI_CHANGES and isinstance(server, GivenPatroni):
            await server.members()  # so that one that is not there is noticed before the run
        if CONNECTION_EXHAUSTION in self._allowance.faults:
            # How many connections it allows; one that does not say is asked in the storm itself.
            await server.learn_limits()

    async def _put_proxy_before(self, server: Server) -> None:
        # Clients on this machine or another find the same port again when the run is resumed.
        self._folder.mkdir(parents=True, exist_ok=True)
        self._state = state.load(self._folder)
        known = self._state.servers.get(server.name)
        if known is not None:
            server.pinned.proxy_port, server.pinned.nodes = known.proxy_port, {**known.nodes}
        await server.start_proxy(self._proxy_host)
        # Without the password: that one is known from elsewhere.
        self._state.servers[server.name] = Pinned(server.port, "", server.pinned.proxy_port, nodes=server.pinned.nodes)
        state.save(self._folder, self._state)
