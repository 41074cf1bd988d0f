"""All packets between clients and server vanish."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NetworkFault
from soak.faults.parameters import OneOf
from soak.servers.proxy import Proxy, directions


class Partition(NetworkFault):
    """A cable pulled, a firewall that drops: nothing is refused or reset, and timeouts decide.

    Unlike in a pause the server works on; unlike refused connections no client sees an error at once.
    """

    name = "partition"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Packets vanish: connections stay open and silent, new ones are never answered; what was under way arrives "
        "afterwards, and nothing that was acknowledged may be lost."
    )

    direction = OneOf("both", "to_server", "to_client", help="which packets vanish, of connections that are open")
    connections = OneOf(
        "silent", "reset", help="what becomes of open ones: they stay and are silent, or are reset first"
    )

    async def begin(self, proxy: Proxy) -> None:
        if self.connections == "reset":
            proxy.reset_connections()
        await proxy.vanish(*directions(self.direction))

    async def end(self, proxy: Proxy) -> None:
        await proxy.reappear()
