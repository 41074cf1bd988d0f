"""A replica of a Redis Cluster takes its primary's place because an operator asks it to."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse
from soak.faults.fault import RedisGroupFault
from soak.faults.parameters import Time
from soak.servers.redis_cluster import ClusterGroup
from soak.servers.servers import Servers


class ClusterFailover(RedisGroupFault):
    """CLUSTER FAILOVER: the primary waits until its replica has everything, and hands over."""

    name = "cluster_failover"
    excuses = Excuse.CLEAN
    groups = (ClusterGroup,)
    description = "CLUSTER FAILOVER: a replica that has everything takes over from its primary; nothing may be lost."
    how: ClassVar[tuple[str, ...]] = ()
    latency = Time(0.0, "of the links of the primary to the other nodes, from shortly before it", least=0.0, most=0.5)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        if not isinstance(group, ClusterGroup):
            raise self.refusal(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        replica = group.replica_of(primary, await group.servers[0].views())
        await self.fall_behind(group, primary, self.latency)
        await replica.ask("CLUSTER", "FAILOVER", *self.how)
        await group.until_replaced(primary)


class ClusterTakeover(ClusterFailover):
    """CLUSTER FAILOVER TAKEOVER: the replica asks nobody, neither its primary nor the majority."""

    name = "cluster_takeover"
    excuses = Excuse.FAILOVER
    description = (
        "CLUSTER FAILOVER TAKEOVER: a replica takes over without asking anybody; what it had not received is lost."
    )
    how = ("TAKEOVER",)


class ClusterFailoverForce(ClusterFailover):
    """CLUSTER FAILOVER FORCE: the replica asks the majority, and not its primary."""

    name = "cluster_failover_force"
    excuses = Excuse.FAILOVER
    description = (
        "CLUSTER FAILOVER FORCE: the majority lets a replica take over, and its primary is not asked; what the replica "
        "had not received is lost."
    )
    how = ("FORCE",)
