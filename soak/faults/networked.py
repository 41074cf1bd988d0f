"""Faults of the network, which need a proxy in front of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.faults.fault import Fault, FaultUnavailableError

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed
    from soak.testbed.proxy import Proxy


class NetworkFault(Fault):
    """A fault between clients and server; the server itself is well."""

    targets = ("redis", "postgres", "postgres-replica", "chroma", "http")

    def unavailable(self, bed: Testbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is None and bed.servers[target].proxy is None:
            return f"clients of {target} are connected to it directly; start the testbed with its proxies"
        return reason

    def proxy(self, bed: Testbed, target: str) -> Proxy:
        proxy = bed.servers[target].proxy
        if proxy is None:
            raise FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(bed, target)}")
        return proxy
