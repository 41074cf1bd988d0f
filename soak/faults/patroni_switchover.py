"""Somebody asks Patroni for another leader."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GROUP_OF_ANYBODY, GroupFault
from soak.servers.external.patroni import GivenPatroni, Members, switch_over
from soak.servers.patroni import PatroniGroup, PatroniNode
from soak.servers.servers import Servers


class PatroniSwitchover(GroupFault):
    """A planned change: the leader ends cleanly, which hands the last of its log to the next one."""

    name = "patroni_switchover"
    excuses = Excuse.CLEAN
    promotes = Promotion.BESIDE_THE_OLD
    groups = (PatroniGroup,)
    given = (GivenPatroni,)
    needs = GROUP_OF_ANYBODY
    description = "A switchover by Patroni: the leader stops cleanly and hands over; nothing may be lost."
    path: ClassVar[str] = "/switchover"

    async def inject(self, servers: Servers, target: str) -> None:
        if isinstance(given := servers.nodes[target], GivenPatroni):
            await given.replace_leader(self.path, self.asked_of_given)
            return
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

    def asked_of_given(self, found: Members) -> dict[str, object]:
        """Return the same of a group that was given."""
        return switch_over(found)
