"""The primary of a group is killed and is back before anybody notices."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.servers.servers import Servers


class PrimaryRestart(GroupFault):
    """SIGKILL, and a supervisor that starts it again at once: nobody is promoted, and the replicas copy what it has."""

    name = "primary_restart"
    excuses = Excuse.CRASH
    promotes = Promotion.NONE
    description = (
        "The primary is killed and started again at once, before anybody notices, so no replica is promoted. A Redis "
        "without persistence comes back empty, and all its replicas copy that."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        # A replacement is not expected: where the machine is so busy that there is one, the group reports it.
        primary = (await self.group(servers, target).primaries())[0]
        await primary.kill()
        await primary.start_again()
