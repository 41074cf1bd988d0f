"""The primary of a group is killed, and a replica takes its place."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.servers.servers import Servers


class PrimaryCrash(GroupFault):
    """SIGKILL of one primary alone: the others notice, and promote its replica."""

    name = "primary_crash"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "The primary is killed and a replica is promoted; what had not been replicated is lost. The old primary comes "
        "back as a replica."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = (await group.primaries())[0]
        self.expect_replacement(group)
        await primary.kill()
        await group.until_replaced(primary)
