"""All nodes of a group are restarted one after the other, as for a new configuration or a new version."""

from __future__ import annotations

import math

from soak.checker.faults import Excuse
from soak.errors import UsageError
from soak.faults.fault import RedisGroupFault
from soak.servers.redis_group import NodeProcess, RedisGroup
from soak.servers.servers import Servers
from soak.servers.versions import ServerRelease


class RollingRestart(RedisGroupFault):
    """Replicas first; each primary hands over before its turn. The next node waits until all agree."""

    name = "rolling_restart"
    excuses = Excuse.CLEAN
    description = (
        "Every node is stopped in good order and started again, one after the other; each primary hands over to a "
        "replica that has everything first; nothing may be lost."
    )

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := super().hindrance(servers, target)) is not None:
            return why
        return None if self.group(servers, target).hands_over else "only Valkey 9 and newer hand over with Sentinel"

    async def inject(self, servers: Servers, target: str) -> None:
        await self.roll(self.group(servers, target))

    async def roll(self, group: RedisGroup, release: ServerRelease | None = None) -> None:
        """Restart all nodes, as this version if one is given."""
        primaries = await group.primaries()
        group.replacements_expected = len(primaries) if self.excuses is Excuse.CLEAN else math.inf
        for node in [*(node for node in group.nodes if node not in primaries), *primaries]:
            if node in primaries:
                await group.hand_over(node)
            # At once: an older version cannot follow the newer one that has taken its place.
            await node.stop_cleanly()
            if release is not None and isinstance(node.backend, NodeProcess):
                node.backend.become(release)
            await node.start_again()
            await group.until_agreed()


class RollingUpgrade(RollingRestart):
    """The same, and each node comes back as the next newer version. It is for good."""

    name = "rolling_upgrade"
    excuses = Excuse.FAILOVER
    description = (
        "Every node is restarted as the next newer version, one after the other, replicas first, for good: Redis 6.2, "
        "7.0, Valkey 9. Where the old version cannot hand over (Sentinel before Valkey 9), a failover takes its toll."
    )
    needs = "a newer version that is installed here"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := RedisGroupFault.hindrance(self, servers, target)) is not None:
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
        await self.roll(group, release)
        group.version = release.version
