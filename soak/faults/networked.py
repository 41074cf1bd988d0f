"""Faults of the network, which need a proxy in front of the server."""

from __future__ import annotations

import abc

from soak.faults.fault import Fault, FaultUnavailableError
from soak.servers.bed import Testbed
from soak.servers.proxy import Proxy


class NetworkFault(Fault):
    """A fault between clients and server; the server itself is well."""

    targets = ("redis", "postgres", "postgres-replica", "chroma", "http")

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        if bed.servers[target].proxy is None:
            return f"clients of {target} are connected to it directly; start the testbed with its proxies"
        return None

    @abc.abstractmethod
    async def begin(self, proxy: Proxy) -> None:
        """Let it happen in this proxy."""

    async def end(self, proxy: Proxy) -> None:
        """End it; nothing where it is over as soon as it has happened."""

    async def inject(self, bed: Testbed, target: str) -> None:
        await self.begin(self.proxy(bed, target))

    async def heal(self, bed: Testbed, target: str) -> None:
        proxy = bed.servers[target].proxy
        if proxy is not None:
            await self.end(proxy)

    def proxy(self, bed: Testbed, target: str) -> Proxy:
        proxy = bed.servers[target].proxy
        if proxy is None:
            raise FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(bed, target)}")
        return proxy
