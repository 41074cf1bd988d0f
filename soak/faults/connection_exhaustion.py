"""All connections that the server allows are taken."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import weakref
from typing import Any

import asyncpg
from redis.exceptions import RedisError

from soak.checker.faults import Excuse
from soak.errors import ServerUnreachableError
from soak.faults.fault import Fault
from soak.faults.healing import Notes, until_serving
from soak.faults.parameters import Count, Given
from soak.servers.kinds import Protocol, names_of
from soak.servers.postgres import PostgresServer
from soak.servers.redis import RedisServer
from soak.servers.server import Server
from soak.servers.servers import Servers

CONNECTIONS_MAX = 512
"""Of our own: a server that allows more cannot be exhausted here."""
_CONNECT_SECONDS_MAX = 10.0
_AT_A_TIME = 16


class _Held(abc.ABC):
    @abc.abstractmethod
    async def close(self) -> None: ...


class ConnectionExhaustion(Fault):
    """Workers that leak connections, or all start at once: who is connected stays so, and nobody else gets in."""

    name = "connection_exhaustion"
    aliases = ("connection_storm",)
    excuses = Excuse.NOTHING
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
        self._held: weakref.WeakKeyDictionary[Server, list[_Held]] = weakref.WeakKeyDictionary()

    def hindrance(self, servers: Servers, target: str) -> str | None:
        server = servers.nodes[target]
        # The limit of a Redis of our own is lowered for the time; that of a given one is left as it is.
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
        for connection in held:
            await connection.close()
        if held:
            await until_serving(servers, target)  # it takes a moment to notice that they are gone
        self._held.pop(server, None)  # not before: a try that failed is followed by another
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


async def _exhaust(server: Server, held: list[_Held]) -> None:
    """Connect until the server takes no more, some at a time; raises `ServerUnreachableError` if it takes them all."""
    while len(held) < CONNECTIONS_MAX:
        found = await asyncio.gather(*(_connected_to(server) for _ in range(_AT_A_TIME)))
        held += [connection for connection in found if connection is not None]
        if None in found:
            break
    else:
        raise ServerUnreachableError(
            f"{server.title} took {len(held)} connections and would take more, which are not made; lower its limit"
        )
    if not held:
        raise ServerUnreachableError(f"{server.title} took no connection at all; check that it answers others")


async def _connected_to(server: Server) -> _Held | None:
    """Connect once, past the proxy; None where the server does not want it."""
    if isinstance(server, RedisServer):
        return await _RedisConnection.to(server)
    if isinstance(server, PostgresServer):
        return await _PostgresConnection.to(server)
    raise TypeError(server)


class _RedisConnection(_Held):
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def to(cls, server: RedisServer) -> _RedisConnection | None:
        pool: Any = server.client(_CONNECT_SECONDS_MAX).connection_pool
        connection = pool.make_connection()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                await connection.connect()
                # One that asks for no password says only now that there are too many.
                await connection.send_command("PING")
                await connection.read_response()
        except (RedisError, OSError, TimeoutError):
            await connection.disconnect(nowait=True)
            return None
        return cls(connection)

    async def close(self) -> None:
        await self._connection.disconnect(nowait=True)


class _PostgresConnection(_Held):
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @classmethod
    async def to(cls, server: PostgresServer) -> _PostgresConnection | None:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return cls(
                await asyncpg.connect(
                    server.own_url,
                    timeout=_CONNECT_SECONDS_MAX,
                    server_settings={"application_name": "soak connection exhaustion"},
                )
            )
        return None

    async def close(self) -> None:
        self._connection.terminate()
