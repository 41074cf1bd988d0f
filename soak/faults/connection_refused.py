"""Nobody reaches the server, which is well."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NetworkFault
from soak.faults.parameters import OneOf
from soak.servers.proxy import Proxy


class ConnectionRefused(NetworkFault):
    """Open connections are reset and new ones refused."""

    name = "connection_refused"
    aliases = ("outage",)
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = "Open connections are reset and new ones refused; nothing that was acknowledged may be lost."

    connections = OneOf("reset", "keep", help="what happens to open connections")

    async def begin(self, proxy: Proxy) -> None:
        await proxy.refuse()
        if self.connections == "reset":
            proxy.reset_connections()

    async def end(self, proxy: Proxy) -> None:
        await proxy.accept()
