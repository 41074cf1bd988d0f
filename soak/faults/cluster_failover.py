"""An operator makes a replica of a Redis Cluster take its primary's place."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GROUP_OF_ANYBODY, RedisGroupFault
from soak.faults.parameters import Time
from soak.servers.external.redis_groups import GivenCluster
from soak.servers.redis_cluster import ClusterGroup
from soak.servers.servers import Servers


class ClusterFailover(RedisGroupFault):
    """CLUSTER FAILOVER: the primary waits until its replica has everything, and hands over."""

    name = "cluster_failover"
    excuses = Excuse.CLEAN
    promotes = Promotion.BESIDE_THE_OLD
    groups = (ClusterGroup,)
    given = (GivenCluster,)
    needs = GROUP_OF_ANYBODY
    description = "CLUSTER FAILOVER: a replica that has everything takes over from its primary; nothing may be lost."
    how: ClassVar[tuple[str, ...]] = ()
    latency = Time(0.0, "latency from the primary to the other nodes, from shortly before it", least=0.0, most=0.5)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if self.latency and isinstance(servers.nodes[target], GivenCluster):
            return "the links of a cluster that was given cannot be made slow; leave latency out"
        return super().hindrance(servers, target)

    async def inject(self, servers: Servers, target: str) -> None:
        if isinstance(given := servers.nodes[target], GivenCluster):
            await given.fail_over(*self.how)
            return
        group = self.group(servers, target)
        if not isinstance(group, ClusterGroup):
            raise self.refusal(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        replica = group.replica_of(primary, await group.servers[0].views())
        await self.fall_behind(group, primary, self.latency)
        await replica.ask("CLUSTER", "FAILOVER", *self.how)
        await group.until_replaced(primary)
