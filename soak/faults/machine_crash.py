"""The machine of a primary dies: its network first, then everything that runs on it."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.faults.parameters import Time
from soak.servers.servers import Servers


class MachineCrash(GroupFault):
    """What a killed process has written to its sockets still arrives. What a dead machine was sending does not."""

    name = "machine_crash"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "The machine of the primary dies with all that runs on it: what was under way vanishes, nobody is refused, and "
        "a replica is promoted. The machine comes back as a replica."
    )
    latency = Time(0.05, "latency of the links to the other nodes, from shortly before it", least=0.0, most=5.0)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        await self.fall_behind(group, primary, self.latency)
        self.links(group).lose(group.around(primary, clients=True))
        names = group.beside(primary)
        await asyncio.gather(*(node.kill() for node in group.nodes if node.name in names))
        await group.until_replaced(primary)
