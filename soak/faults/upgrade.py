"""A newer server is started on the same data."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.errors import UsageError
from soak.faults.fault import STREAMS, Fault, as_postgres, until_holds
from soak.servers.backend import Upgradable
from soak.servers.group import group_of
from soak.servers.kinds import Protocol, Role, names_of
from soak.servers.postgres_process import PostgresProcess
from soak.servers.server import Server
from soak.servers.servers import Servers


class Upgrade(Fault):
    """The next version that can be had takes over: data, address and all. It is for good."""

    name = "upgrade"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "The server is stopped cleanly and the next newer version is started on its data, for good: Redis 6.2, "
        "7.0, Valkey 9, or a PostgreSQL by pg_upgrade; nothing may be lost."
    )
    targets = names_of(Protocol.REDIS, Protocol.POSTGRES, roles=(Role.PRIMARY,))

    needs = "a newer version that is installed here"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        backend = servers.nodes[target].backend
        if not isinstance(backend, Upgradable):
            return "it can be upgraded only by whoever runs it"
        try:
            backend.next_release()
        except UsageError as error:
            return str(error)
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        if not isinstance(server.backend, Upgradable):
            raise self.refusal(servers, target)
        server.backend.next_release()  # while the server still runs: if there is none, nothing happens to it
        await server.stop_cleanly()
        await server.backend.upgrade()

    async def heal(self, servers: Servers, target: str) -> None:
        """Bring it back as what it is now, and its replicas as copies of that."""
        replicas = group_of(servers.nodes, target).replicas
        for replica in replicas:
            if _is_outdated(replica, servers.nodes[target]):
                # It cannot follow another version, so it must not go on showing what was.
                await replica.stop_cleanly()
        await servers.nodes[target].start_again()
        for replica in replicas:
            if replica.pid is None:
                await replica.start_again()
                await until_holds(as_postgres(replica), STREAMS, "stream from its primary")


def _is_outdated(replica: Server, primary: Server) -> bool:
    old, new = replica.backend, primary.backend
    return isinstance(old, PostgresProcess) and isinstance(new, PostgresProcess) and old.version != new.version
