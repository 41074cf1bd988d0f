"""The standby takes the primary's place, as before maintenance."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.servers.servers import Servers
from soak.servers.sync_standby import SyncStandbyGroup


class StandbySwitchover(GroupFault):
    """The primary ends cleanly, which hands the last of its log to the standby before that one is promoted."""

    name = "standby_switchover"
    excuses = Excuse.CLEAN
    promotes = Promotion.BESIDE_THE_OLD
    groups = (SyncStandbyGroup,)
    description = (
        "The primary is stopped cleanly, the standby, which has everything, is promoted, and the old primary "
        "follows it as a fresh copy; nothing may be lost."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        (primary,) = await group.primaries()
        self.expect_replacement(group)
        await group.hand_over(primary)
