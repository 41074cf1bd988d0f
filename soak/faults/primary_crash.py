"""The primary of a group is killed, and a replica takes its place."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import SentinelFault
from soak.servers.servers import Servers


class PrimaryCrash(SentinelFault):
    """SIGKILL of the primary alone: the sentinels notice, and promote a replica."""

    name = "primary_crash"
    excuses = Excuse.FAILOVER
    description = (
        "The primary is killed and the sentinels promote a replica; what had not been replicated is lost. The old "
        "primary comes back as a replica."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        primary = await group.primary()
        await primary.kill()
        await group.until_named(other_than=primary)
