"""The standbys of a group are away, or lag behind."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse
from soak.faults.fault import GroupFault, until_holds
from soak.servers.postgres_group import PostgresGroup, PostgresNode
from soak.servers.servers import Servers


class StandbyOutage(GroupFault):
    """Where commits wait for a standby, they wait until one is back."""

    name = "standby_outage"
    excuses = Excuse.NOTHING
    description = (
        "All standbys are killed and come back when it is healed. Commits that wait for one wait as long; nothing may "
        "be lost."
    )
    groups = tuple(group for group in GroupFault.groups if issubclass(group, PostgresGroup))

    async def inject(self, servers: Servers, target: str) -> None:
        group = self.group(servers, target)
        self.expect_replacement(group)
        await asyncio.gather(*(node.kill() for node in await standbys(group)))


class StandbyLag(GroupFault):
    """Replay stands still on all standbys, as behind a long query or on an overloaded disk."""

    name = "standby_lag"
    excuses = Excuse.NOTHING
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


async def standbys(group: object) -> list[PostgresNode]:
    """Return the nodes that follow the primary."""
    if not isinstance(group, PostgresGroup):
        raise TypeError(group)
    primaries = await group.primaries()
    return [node for node in group.servers if node not in primaries]
