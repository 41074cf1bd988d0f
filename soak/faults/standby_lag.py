"""The standbys of a group receive what the primary writes, and do not show it."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import GroupFault, until_holds
from soak.faults.standby_outage import StandbyOutage, standbys
from soak.servers.servers import Servers


class StandbyLag(GroupFault):
    """Replay stands still on all standbys, as behind a long query or on an overloaded disk."""

    name = "standby_lag"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "The standbys receive what the primary writes and do not show it until it is healed. With remote_apply commits "
        "wait as long; nothing may be lost."
    )
    groups = StandbyOutage.groups

    async def inject(self, servers: Servers, target: str) -> None:
        for node in await standbys(self.group(servers, target)):
            await node.ask("select pg_wal_replay_pause()::text as paused")
            # Asking is not yet stopping: what is being replayed is finished first.
            await until_holds(node, "pg_get_wal_replay_pause_state() = 'paused'", "pause")

    async def heal(self, servers: Servers, target: str) -> None:
        if self.hindrance(servers, target) is None:
            for node in await standbys(self.group(servers, target)):
                await node.ask("select case when pg_is_in_recovery() then pg_wal_replay_resume()::text end as resumed")
        await super().heal(servers, target)
