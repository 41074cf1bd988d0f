"""A newer server is started on the same data."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.errors import UsageError
from soak.faults.fault import Fault, FaultUnavailableError
from soak.faults.on_postgres import STREAMS, postgres, until_holds
from soak.servers.backend import Upgradable
from soak.servers.bed import Testbed
from soak.servers.postgres_process import PostgresProcess
from soak.servers.server import Server

REPLICA = "postgres-replica"


class Upgrade(Fault):
    """The next version that can be had takes over: data, address and all. It is for good."""

    name = "upgrade"
    excuses = Excuse.CLEAN
    down = True
    description = (
        "The server is stopped in good order and the next newer version is started on its data, for good: Redis 6.2, "
        "7.0, Valkey 9, or a PostgreSQL by pg_upgrade; nothing may be lost."
    )
    targets = ("redis", "postgres")

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        vessel = bed.servers[target].vessel
        if not isinstance(vessel, Upgradable):
            return "it can be upgraded only by whoever runs it"
        try:
            vessel.next_release()
        except UsageError as error:
            return str(error)
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        server = bed.servers[target]
        if not isinstance(server.vessel, Upgradable):
            raise FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(bed, target)}")
        server.vessel.next_release()  # while the server still runs: if there is none, nothing happens to it
        await server.stop_cleanly()
        await server.vessel.upgrade()

    async def heal(self, bed: Testbed, target: str) -> None:
        """Bring it back as what it is now, and its replica as a copy of that."""
        replica = bed.servers.get(REPLICA) if target == "postgres" else None
        if replica is not None and _is_outdated(replica, bed.servers[target]):
            # It cannot follow another version, so it must not go on showing what was.
            await replica.stop_cleanly()
        await bed.servers[target].start_again()
        if replica is not None and replica.pid is None:
            await replica.start_again()
            await until_holds(postgres(bed, REPLICA), STREAMS, "stream from its primary")


def _is_outdated(replica: Server, primary: Server) -> bool:
    old, new = replica.vessel, primary.vessel
    return isinstance(old, PostgresProcess) and isinstance(new, PostgresProcess) and old.version != new.version
