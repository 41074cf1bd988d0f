"""An operator asks the primary itself to hand over, past the sentinels."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisGroupFault
from soak.servers.ports import HOST
from soak.servers.sentinel import SentinelGroup
from soak.servers.servers import Servers


class FailoverCommand(RedisGroupFault):
    """FAILOVER, to the primary itself: it hands over, and the sentinels learn of it only afterwards."""

    name = "failover_command"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
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
