"""An operator asks the sentinels for a failover, while everything is well."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse
from soak.faults.fault import Group, GroupFault
from soak.servers.redis_group import RedisGroup
from soak.servers.sentinel import SERVICE, SentinelGroup
from soak.servers.servers import Servers

COORDINATED_SINCE = 9
"""The Valkey that knows SENTINEL FAILOVER ... COORDINATED; no Redis does."""


class SentinelFailover(GroupFault):
    """SENTINEL FAILOVER. The old primary goes on acknowledging until it is demoted, about ten seconds later."""

    name = "sentinel_failover"
    excuses = Excuse.FAILOVER
    description = (
        "SENTINEL FAILOVER: a replica is promoted, and clients that are connected to the old primary go on writing to "
        "it until the sentinels demote it; all of that is lost."
    )
    groups = (SentinelGroup,)
    how: ClassVar[tuple[str, ...]] = ()

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        if not isinstance(group, SentinelGroup):
            raise self.refusal(servers, target)
        (primary,) = await group.primaries()
        self.expect_replacement(group)
        await group.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE, *self.how)
        await group.until_replaced(primary)


class CoordinatedFailover(SentinelFailover):
    """The primary hands over to a replica that has everything, and stops acknowledging first."""

    name = "coordinated_failover"
    excuses = Excuse.CLEAN
    description = (
        "SENTINEL FAILOVER COORDINATED: the primary stops taking writes, hands over to a replica that has everything, "
        "and follows it; nothing may be lost."
    )
    how = ("COORDINATED",)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := super().hindrance(servers, target)) is not None:
            return why
        return None if _hands_over(self.group(servers, target)) else "only Valkey 9 and newer know it"


def _hands_over(group: Group) -> bool:
    version = group.version if isinstance(group, RedisGroup) else None
    return version is not None and version.family == "valkey" and version.major >= COORDINATED_SINCE
