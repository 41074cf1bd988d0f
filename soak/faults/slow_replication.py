"""Replicas of a group fall behind their primaries."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisGroupFault
from soak.faults.parameters import OneOf, Time
from soak.servers.links import Link
from soak.servers.servers import Servers


class SlowReplication(RedisGroupFault):
    """The links from replicas to primaries are slow, so that replicas show what was. Nobody else notices."""

    name = "slow_replication"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Replicas receive everything late; reads from them are stale, a primary that waits for them answers late, and "
        "nothing is lost."
    )
    latency = Time(0.5, "how much later everything arrives, at most twice that", least=0.001, most=60.0)
    replicas = OneOf("all", "one", help="how many of them")

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primaries = await group.primaries()
        behind = [node for node in group.servers if node not in primaries]
        slow = behind if self.replicas == "all" else behind[:1]
        self.links(group).slow_down(
            [Link(replica.name, primary.name) for replica in slow for primary in primaries], self.latency
        )
