"""An operator asks the sentinels for a failover, while everything is well."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GROUP_OF_ANYBODY, RedisGroupFault
from soak.servers.external.redis_groups import GivenSentinel
from soak.servers.sentinel import SentinelGroup
from soak.servers.servers import Servers


class SentinelFailover(RedisGroupFault):
    """SENTINEL FAILOVER. The old primary goes on acknowledging until it is demoted, about ten seconds later."""

    name = "sentinel_failover"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "SENTINEL FAILOVER: a replica is promoted, and clients that are connected to the old primary go on writing to "
        "it until the sentinels demote it; all of that is lost."
    )
    groups = (SentinelGroup,)
    given = (GivenSentinel,)
    needs = GROUP_OF_ANYBODY
    how: ClassVar[tuple[str, ...]] = ()

    async def inject(self, servers: Servers, target: str) -> None:
        if isinstance(given := servers.nodes[target], GivenSentinel):
            await given.fail_over(*self.how)
            return
        group = self.group(servers, target)
        if not isinstance(group, SentinelGroup):
            raise self.refusal(servers, target)
        (primary,) = await group.primaries()
        self.expect_replacement(group)
        await group.fail_over(primary, *self.how)
