"""The standbys of a group are away, or lag behind."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.servers.postgres_group import PostgresGroup, PostgresNode
from soak.servers.servers import Servers


class StandbyOutage(GroupFault):
    """Where commits wait for a standby, they wait until one is back."""

    name = "standby_outage"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "All standbys are killed and come back when it is healed. Commits that wait for one wait as long; nothing may "
        "be lost."
    )
    groups = tuple(group for group in GroupFault.groups if issubclass(group, PostgresGroup))

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        self.expect_replacement(group)
        await asyncio.gather(*(node.kill() for node in await standbys(group)))


async def standbys(group: object) -> list[PostgresNode]:
    """Return the nodes that follow the primary."""
    if not isinstance(group, PostgresGroup):
        raise TypeError(group)
    primaries = await group.primaries()
    return [node for node in group.servers if node not in primaries]
