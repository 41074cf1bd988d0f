"""Commits that wait for a standby are cancelled, which acknowledges them; then the standby is promoted."""

from __future__ import annotations

import asyncio
import time

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault
from soak.faults.parameters import Time
from soak.servers.links import Link
from soak.servers.servers import Servers
from soak.servers.sync_standby import SyncStandbyGroup

_CANCEL = """
select count(pg_cancel_backend(pid))::text as cancelled from pg_stat_activity where wait_event = 'SyncRep'
"""
_POLL_SECONDS = 0.05


class CancelledCommits(GroupFault):
    """`pg_cancel_backend` ends the wait, not the commit: the client reads INSERT 0 1 and a warning."""

    name = "cancelled_commits"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    groups = (SyncStandbyGroup,)
    description = (
        "The standby receives nothing more, somebody cancels the commits that wait for it, which acknowledges them; "
        "the primary's machine dies and the standby is promoted. All that was cancelled is lost."
    )
    lasts = Time(2.0, "how long commits are cancelled before the primary dies", least=0.1, most=60.0)

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        if group.links is None or not isinstance(group, SyncStandbyGroup):
            raise self.refusal(servers, target)
        primary, standby = group.primary, group.standby
        self.expect_replacement(group)
        group.links.cut([Link(standby.name, primary.name)], silent=True)
        deadline = time.monotonic() + self.lasts
        while time.monotonic() < deadline:
            await primary.ask(_CANCEL)
            await asyncio.sleep(_POLL_SECONDS)
        group.links.cut(group.around(primary, clients=True), silent=True)
        await primary.kill()
        await group.until_replaced(primary)
