"""The replica receives what its primary writes, and does not show it."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import PostgresFault, as_postgres, until_caught_up, until_holds
from soak.servers.group import group_of
from soak.servers.kinds import Protocol, Role, names_of
from soak.servers.servers import Servers


class ReplicaLag(PostgresFault):
    """Replay on the replica stands still, as behind a long query or on an overloaded disk."""

    name = "replica_lag"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = "The replica shows nothing newer until it is healed; reads from it are stale, and nothing is lost."
    targets = names_of(Protocol.POSTGRES, roles=(Role.REPLICA,))

    async def inject(self, servers: Servers, target: str) -> None:
        replica = self.postgres(servers, target)
        await replica.ask("select pg_wal_replay_pause()::text as paused")
        # Asking is not yet stopping: what is being replayed is finished first.
        await until_holds(replica, "pg_get_wal_replay_pause_state() = 'paused'", "pause")

    async def heal(self, servers: Servers, target: str) -> None:
        replica = self.postgres(servers, target)
        await replica.ask("select case when pg_is_in_recovery() then pg_wal_replay_resume()::text end as resumed")
        await until_caught_up(as_postgres(group_of(servers.nodes, target).primary), replica)
