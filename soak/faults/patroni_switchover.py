"""Somebody asks Patroni for another leader."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse
from soak.faults.fault import GroupFault
from soak.servers.patroni import PatroniGroup, PatroniNode
from soak.servers.servers import Servers


class PatroniSwitchover(GroupFault):
    """A planned change: the leader ends in good order, which hands the last of its log to the next one."""

    name = "patroni_switchover"
    excuses = Excuse.CLEAN
    groups = (PatroniGroup,)
    description = "A switchover by Patroni: the leader stops in good order and hands over; nothing may be lost."
    path: ClassVar[str] = "/switchover"

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        if not isinstance(group, PatroniGroup):
            raise self.refusal(servers, target)
        leader = await group.leader()
        self.expect_replacement(group)
        await leader.rest(self.path, await self.asked(leader))
        await group.until_replaced(leader)

    async def asked(self, leader: PatroniNode) -> dict[str, object]:
        """Return what Patroni is asked for."""
        return {"leader": leader.name}


class PatroniFailover(PatroniSwitchover):
    """A failover by hand: Patroni is told who is next, and does not ask whether that one has everything."""

    name = "patroni_failover"
    excuses = Excuse.FAILOVER
    description = "A failover by Patroni to a standby that is named; what that one had not received is lost."
    path = "/failover"

    async def asked(self, leader: PatroniNode) -> dict[str, object]:
        followers = await leader.followers()
        # Where commits wait for a standby, only that one has everything.
        return {"candidate": min(followers, key=lambda name: (followers[name] != "sync", name))}
