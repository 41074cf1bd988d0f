"""The primary of a group is cut off from the other nodes; the rest elects another one."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Group, GroupFault
from soak.faults.parameters import OneOf
from soak.servers.links import Link
from soak.servers.node_group import GroupNode
from soak.servers.servers import Servers

MAJORITY, MINORITY, BOTH = "majority", "minority", "both"
SIDES = "whom clients still reach: the other nodes, the primary that is cut off, or both"


class PrimaryPartition(GroupFault):
    """Packets between the primary and everybody else vanish, clients included: they are with the majority."""

    name = "primary_partition"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "The primary is cut off from the other nodes and all clients; packets vanish. The majority promotes a replica, "
        "and what the old primary had not replicated is lost."
    )
    cut = OneOf("silent", "reset", help="what becomes of the links: packets vanish, or connections are reset")
    clients = OneOf(MAJORITY, MINORITY, BOTH, help=SIDES)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        self.links(group).cut(self._cut_links(group, primary), silent=self.cut == "silent")
        await group.until_replaced(primary)

    def _cut_links(self, group: Group, primary: GroupNode) -> list[Link]:
        links = group.around(primary, clients=self.clients == MAJORITY)
        return [*links, *group.to_others(primary)] if self.clients == MINORITY else links
