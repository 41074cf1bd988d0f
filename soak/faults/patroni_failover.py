"""Somebody tells Patroni who is the next leader."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.patroni_switchover import PatroniSwitchover
from soak.servers.external.patroni import Members, fail_over
from soak.servers.patroni import PatroniNode


class PatroniFailover(PatroniSwitchover):
    """A failover by hand: Patroni is told who is next, and does not ask whether that one has everything."""

    name = "patroni_failover"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = "A failover by Patroni to a standby that is named; what that one had not received is lost."
    path = "/failover"

    async def asked(self, leader: PatroniNode) -> dict[str, object]:
        followers = await leader.followers()
        # Where commits wait for a standby, only that one has everything.
        return {"candidate": min(followers, key=lambda name: (followers[name] != "sync", name))}

    def asked_of_given(self, found: Members) -> dict[str, object]:
        return fail_over(found)
