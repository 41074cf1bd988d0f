"""All nodes of a group are restarted one after the other, as for a new configuration or a new version."""

from __future__ import annotations

import math

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Group, GroupFault
from soak.servers.node_group import GroupNode
from soak.servers.servers import Servers


class RollingRestart(GroupFault):
    """Replicas first; each primary hands over before its turn. The next node waits until all agree."""

    name = "rolling_restart"
    excuses = Excuse.CLEAN
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "Every node is stopped cleanly and started again, one after the other; each primary hands over to a "
        "replica that has everything first; nothing may be lost."
    )

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := super().hindrance(servers, target)) is not None:
            return why
        return None if self.group(servers, target).hands_over else "only Valkey 9 and newer hand over with Sentinel"

    async def inject(self, servers: Servers, target: str) -> None:
        await self.roll(self.group(servers, target))

    async def roll(self, group: Group) -> None:
        """Restart all nodes."""
        primaries = await group.primaries()
        group.begin_replacements(len(primaries) if self.excuses is Excuse.CLEAN else math.inf)
        for node in [*(node for node in group.nodes if node not in primaries), *primaries]:
            if node in primaries:
                await group.hand_over(node)
            await self.restart(group, node)
            await group.until_agreed()

    async def restart(self, group: Group, node: GroupNode) -> None:
        """Restart one of them."""
        await group.restart(node)
