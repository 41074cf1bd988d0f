"""An operator asks the sentinels for a failover, while everything is well."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse
from soak.faults.fault import RedisGroupFault
from soak.servers.ports import HOST
from soak.servers.sentinel import SERVICE, SentinelGroup
from soak.servers.servers import Servers


class SentinelFailover(RedisGroupFault):
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
        return None if self.group(servers, target).hands_over else "only Valkey 9 and newer know it"


class FailoverCommand(RedisGroupFault):
    """FAILOVER, to the primary itself: it hands over, and the sentinels learn of it only afterwards."""

    name = "failover_command"
    excuses = Excuse.FAILOVER
    description = (
        "FAILOVER TO a replica, past the sentinels: the primary hands over everything, and the sentinels go on naming "
        "it, so that writes are refused until they have promoted one themselves, up to a minute later; what another "
        "one took meanwhile is lost."
    )
    groups = (SentinelGroup,)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        (primary,) = await group.primaries()
        self.expect_replacement(group)
        replica = next(node for node in group.servers if node is not primary)
        await primary.ask("FAILOVER", "TO", HOST, str(replica.seat.front))
        await group.until_takes_writes(replica)
