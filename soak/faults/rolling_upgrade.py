"""All nodes of a group become the next newer version, one after the other."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.errors import UsageError
from soak.faults.fault import Group, GroupFault, RedisGroupFault
from soak.faults.rolling_restart import RollingRestart
from soak.servers.node_group import GroupNode
from soak.servers.redis_group import NodeProcess
from soak.servers.servers import Servers


class RollingUpgrade(RedisGroupFault, RollingRestart):
    """The same as a rolling restart, and each node comes back as the next newer version. It is for good."""

    name = "rolling_upgrade"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "Every node is restarted as the next newer version, one after the other, replicas first, for good: Redis 6.2, "
        "7.0, Valkey 9. Where the old version cannot hand over (Sentinel before Valkey 9), a failover may lose writes."
    )
    needs = "a newer version that is installed here"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := GroupFault.hindrance(self, servers, target)) is not None:
            return why
        try:
            self.group(servers, target).next_release()
        except UsageError as error:
            return str(error)
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        release = group.next_release()
        # Before the first node: an older one could not read the data of a newer one, should we be killed half way.
        group.pin(release)
        await self.roll(group)
        group.version = release.version

    async def restart(self, group: Group, node: GroupNode) -> None:
        # At once: an older version cannot follow the newer one that has taken its place.
        await node.stop_cleanly()
        if isinstance(node.backend, NodeProcess):
            node.backend.become(node.backend.next_release())
        await group.restart(node)
