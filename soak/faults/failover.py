"""The replica takes its primary's place.

What one must know before touching it:
- The primary is down before anything else happens (it is fenced): two that both take writes would be another fault.
- The address stays and the data moves: the folders of the two change places in one step, the server at the primary's
  address starts on what the replica had, as a replica, and is promoted there. Clients connect again where they always
  did, and after a kill at any moment both folders are ones that a server can be started on.
- Which of the two folders is the fenced one is decided by the file that makes a server a replica, not by a note.
- Afterwards the replica is a fresh copy of the new primary: its old data, once a primary's, has a history of its own.
"""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import IS_PRIMARY, STREAMS, PostgresFault, as_postgres, holds, until_caught_up, until_holds
from soak.faults.healing import Notes
from soak.servers.group import group_of
from soak.servers.kinds import POSTGRES_REPLICA
from soak.servers.postgres import REPLICA_MARK, PostgresServer
from soak.servers.postgres_process import exchange_folders
from soak.servers.servers import Servers


class Failover(PostgresFault):
    """A planned change: the primary ends cleanly, which hands the last of its log to the replica first."""

    name = "failover"
    excuses = Excuse.CLEAN
    promotes = Promotion.AT_ONE_ADDRESS
    description = (
        "The primary is stopped, its replica, which has everything, is promoted and takes over the address; "
        "nothing may be lost."
    )

    needs = "a replica, and both on this machine"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        group = group_of(servers.nodes, target)
        if not group.replicas:
            return f"there is no replica to promote; start {POSTGRES_REPLICA.name} too"
        if not all(node.backend.is_local_process for node in group.nodes):
            return "the data folders of these servers are not on this machine, so they cannot change places"
        if any(node.power is not None and not node.power.allows_exchange for node in group.nodes):
            return "each of these servers has a file system of its own, so their data cannot change places in one step"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        primary, replica = self.postgres(servers, target), as_postgres(group_of(servers.nodes, target).replicas[0])
        await until_holds(replica, STREAMS, "stream from its primary")
        Notes(primary).begin(self.name)
        await self.fence(primary, replica)
        await replica.stop_cleanly()
        await exchange_folders(primary.working_folder, replica.working_folder)
        await primary.start_again()
        await _promote(primary)

    async def fence(self, primary: PostgresServer, replica: PostgresServer) -> None:
        """End the primary; when this returns, it acknowledges nothing more."""
        await until_caught_up(primary, replica)
        await primary.stop_cleanly()

    async def heal(self, servers: Servers, target: str) -> None:
        primary = self.postgres(servers, target)
        await primary.start_again()
        await _promote(primary)
        for replica in group_of(servers.nodes, target).replicas:
            await _follow_again(as_postgres(replica))
        Notes(primary).end(self.name)


async def _promote(server: PostgresServer) -> None:
    if not await holds(server, IS_PRIMARY):
        await server.ask("select pg_promote(false)::text as promoted")
        await until_holds(server, IS_PRIMARY, "become the primary")


async def _follow_again(replica: PostgresServer) -> None:
    if replica.pid is None and not (replica.working_folder / REPLICA_MARK).exists():
        await replica.wipe()  # the fenced primary's
    await replica.start_again()
    await until_holds(replica, STREAMS, "stream from its primary")
