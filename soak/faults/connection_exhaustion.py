"""All connections that the server allows are taken."""

from __future__ import annotations

import weakref

from soak.checker.faults import Excuse, Promotion
from soak.errors import ServerUnreachableError
from soak.faults.fault import Fault
from soak.faults.healing import Notes, until_serving
from soak.faults.parameters import Count, Given
from soak.hosts import is_cluster
from soak.servers.kinds import Protocol, names_of
from soak.servers.redis import RedisServer
from soak.servers.server import HeldConnection, Server
from soak.servers.servers import Servers

CONNECTIONS_MAX = 512
"""The most that soak opens: a server that allows more cannot be exhausted here."""
_AT_A_TIME = 16


class ConnectionExhaustion(Fault):
    """Workers that leak connections, or all start at once: open connections work on, and no new one gets in."""

    name = "connection_exhaustion"
    aliases = ("connection_storm",)
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Idle connections of ours take all that the server allows, so that it turns new ones away; "
        "those that are open work on, and nothing that was acknowledged may be lost."
    )
    targets = names_of(Protocol.REDIS, Protocol.POSTGRES)

    connections = Count(
        64,
        "Redis: how many to take (its limit is lowered meanwhile); PostgreSQL: always all",
        least=1,
        most=CONNECTIONS_MAX,
    )

    def __init__(self, **given: Given) -> None:
        super().__init__(**given)
        self._held: weakref.WeakKeyDictionary[Server, list[HeldConnection]] = weakref.WeakKeyDictionary()

    def hindrance(self, servers: Servers, target: str) -> str | None:
        server = servers.nodes[target]
        if is_cluster(server.own_url):
            return "each primary of a cluster has connections of its own; give the address of one server"
        # The limit of a Redis of our own is lowered during the fault; that of a given one is not.
        limits = ("max_connections",) if server.backend.is_ours else ("max_connections", "maxclients")
        allowed = max(int(server.configuration.get(limit, 0)) for limit in limits)
        if allowed > CONNECTIONS_MAX:
            return f"{target} allows {allowed} connections, more than the {CONNECTIONS_MAX} that are taken at most"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        held = self._held.setdefault(server, [])
        if isinstance(server, RedisServer) and server.backend.is_ours:
            await self._lower_limit(server)
        await _exhaust(server, held)

    async def heal(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        held = self._held.get(server, [])
        for close in held:
            await close()
        if held:
            await until_serving(servers, target)  # it takes a moment to notice that they are gone
        self._held.pop(server, None)  # only now: healing that failed is tried again
        if isinstance(server, RedisServer):
            notes = Notes(server)
            before = notes.before(self.name)
            if before:
                await server.change_settings(before)
                notes.end(self.name)

    async def _lower_limit(self, server: RedisServer) -> None:
        before = await server.get_settings("maxclients")
        Notes(server).begin(self.name, before)
        connected = int((await server.information("clients"))["connected_clients"])
        limit = min(int(before["maxclients"]), connected + self.connections)
        await server.change_settings({"maxclients": str(limit)})


async def _exhaust(server: Server, held: list[HeldConnection]) -> None:
    """Connect until the server takes no more, some at a time; raises `ServerUnreachableError` if it takes them all."""
    while len(held) < CONNECTIONS_MAX:
        found = await server.hold_connections(_AT_A_TIME)
        held += [connection for connection in found if connection is not None]
        if None in found:
            break
    else:
        raise ServerUnreachableError(
            f"{server.title} took {len(held)} connections and would take more, which are not made; lower its limit"
        )
    if not held:
        raise ServerUnreachableError(f"{server.title} took no connection at all; check that it answers others")
