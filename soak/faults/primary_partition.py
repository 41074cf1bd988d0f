"""The primary of a group is cut off from the other nodes; the rest elects another one."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse
from soak.faults.fault import WITHOUT_MAJORITY, GroupFault
from soak.faults.parameters import OneOf
from soak.servers.servers import Servers


class PrimaryPartition(GroupFault):
    """Packets between the primary and everybody else vanish, clients included: they are with the majority."""

    name = "primary_partition"
    excuses = Excuse.FAILOVER
    description = (
        "The primary is cut off from the other nodes and all clients; packets vanish. The majority promotes a replica, "
        "and what the old primary had not replicated is lost."
    )
    with_clients: ClassVar[bool] = True
    cut = OneOf("silent", "reset", help="whether packets vanish, or connections are reset and refused")

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        if group.links is None:
            raise self.refusal(servers, target)
        group.links.cut(group.around(primary, clients=self.with_clients), silent=self.cut == "silent")
        await group.until_replaced(primary)


class PartialPartition(PrimaryPartition):
    """The nodes are parted and clients reach all of them: connected ones stay with the old primary."""

    name = "partial_partition"
    description = (
        "The primary is cut off from the other nodes, while clients still reach everybody. Those "
        "that are connected to it go on writing to it, without an error, and all of that is lost when it is demoted."
    )
    with_clients = False
    # Two nodes have no majority: nobody knows which of them is cut off, and nobody is promoted.
    groups = tuple(group for group in GroupFault.groups if group not in WITHOUT_MAJORITY)
