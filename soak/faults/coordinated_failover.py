"""An operator asks the sentinels for a failover that the primary takes part in."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.sentinel_failover import SentinelFailover
from soak.servers.external.redis_groups import GivenSentinel
from soak.servers.servers import Servers


class CoordinatedFailover(SentinelFailover):
    """The primary hands over to a replica that has everything, and stops acknowledging first."""

    name = "coordinated_failover"
    excuses = Excuse.CLEAN
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "SENTINEL FAILOVER COORDINATED: the primary stops taking writes, hands over to a replica that has everything, "
        "and follows it; nothing may be lost."
    )
    how = ("COORDINATED",)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if (why := super().hindrance(servers, target)) is not None:
            return why
        if isinstance(servers.nodes[target], GivenSentinel):
            return None  # sentinels that do not know it refuse it
        return None if self.group(servers, target).hands_over else "only Valkey 9 and newer know it"
