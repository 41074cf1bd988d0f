"""The machine of a primary dies: its network first, then everything that runs on it."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse
from soak.faults.fault import GroupFault
from soak.servers.servers import Servers


class MachineCrash(GroupFault):
    """What a killed process has written to its sockets still arrives. What a dead machine was sending does not."""

    name = "machine_crash"
    excuses = Excuse.FAILOVER
    description = (
        "The machine of the primary dies with all that runs on it: what was under way vanishes, nobody is refused, and "
        "a replica is promoted. The machine comes back as a replica."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        if group.links is None:
            raise self.refusal(servers, target)
        group.links.cut(group.around(primary, clients=True), silent=True)
        names = group.beside(primary)
        await asyncio.gather(*(node.kill() for node in group.nodes if node.name in names))
        await group.until_replaced(primary)
