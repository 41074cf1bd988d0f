"""The machine of a primary dies, with what it had sent and nobody had received."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse
from soak.faults.fault import GroupFault
from soak.faults.parameters import Time
from soak.servers.servers import Servers


class MachineDeath(GroupFault):
    """A process that is killed loses nothing by that: what it wrote to its sockets still arrives. Here it does not."""

    name = "machine_death"
    excuses = Excuse.FAILOVER
    description = (
        "The machine of a primary dies, with a sentinel if one is beside it: what was under way to its replicas is "
        "lost, and one of them is promoted."
    )
    latency = Time(0.05, "of the links to the other nodes, from shortly before it", least=0.0, most=5.0)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        await self.fall_behind(group, primary, self.latency)
        beside = group.beside(primary)
        self.links(group).lose(group.around(primary, clients=True))
        await asyncio.gather(*(node.kill() for node in group.nodes if node.name in beside))
        await group.until_replaced(primary)
