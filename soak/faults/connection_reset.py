"""All connections are cut once."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NetworkFault
from soak.faults.parameters import Share
from soak.servers.proxy import Proxy


class ConnectionReset(NetworkFault):
    """A load balancer fails over, or a firewall loses its state: all clients have to connect again, and can."""

    name = "connection_reset"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Open connections are reset in the middle of what they do, and new ones succeed at once; "
        "nothing that was acknowledged may be lost, and nothing stored twice."
    )

    share = Share(1.0, "of the open connections, at least one", least=0.0, most=1.0)

    async def begin(self, proxy: Proxy) -> None:
        proxy.reset_connections(self.share)
