"""The primary of a group is cut off from the other nodes; the rest elects another one."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import WITHOUT_MAJORITY, Group, GroupFault
from soak.faults.parameters import OneOf
from soak.servers.links import Link
from soak.servers.node_group import GroupNode
from soak.servers.servers import Servers

_MAJORITY, _MINORITY, _BOTH = "majority", "minority", "both"
_SIDES = "whom clients still reach: the other nodes, the primary that is cut off, or both"


class PrimaryPartition(GroupFault):
    """Packets between the primary and everybody else vanish, clients included: they are with the majority."""

    name = "primary_partition"
    excuses = Excuse.FAILOVER
    description = (
        "The primary is cut off from the other nodes and all clients; packets vanish. The majority promotes a replica, "
        "and what the old primary had not replicated is lost."
    )
    cut = OneOf("silent", "reset", help="what becomes of the links: packets vanish, or connections are reset")
    clients = OneOf(_MAJORITY, _MINORITY, _BOTH, help=_SIDES)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        self.links(group).cut(self._cut_links(group, primary), silent=self.cut == "silent")
        await group.until_replaced(primary)

    def _cut_links(self, group: Group, primary: GroupNode) -> list[Link]:
        links = group.around(primary, clients=self.clients == _MAJORITY)
        return [*links, *group.to_others(primary)] if self.clients == _MINORITY else links


class PartialPartition(PrimaryPartition):
    """The nodes are parted and clients reach all of them: connected ones stay with the old primary."""

    name = "partial_partition"
    description = (
        "The primary is cut off from the other nodes, while clients still reach everybody. Those "
        "that are connected to it go on writing to it, without an error, and all of that is lost when it is demoted."
    )
    clients = OneOf(_BOTH, _MAJORITY, _MINORITY, help=_SIDES)
    # Two nodes have no majority: nobody knows which of them is cut off, and nobody is promoted.
    groups = tuple(group for group in GroupFault.groups if group not in WITHOUT_MAJORITY)
