"""All connections that the server allows are taken."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING, Protocol

import asyncpg

from soak.faults.fault import Fault
from soak.faults.healing import until_serving
from soak.faults.notes import Notes
from soak.testbed.ports import HOST
from soak.testbed.postgres import DATABASE, USER, PostgresServer
from soak.testbed.redis import RedisServer

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed
    from soak.testbed.server import Server

CONNECTIONS_MAX = 512
"""Of our own: a server that allows more cannot be exhausted here."""
REDIS_CONNECTIONS = 64
"""So many are left to take on a Redis, whose limit is usually in the thousands and is lowered for the time."""
_CONNECT_SECONDS_MAX = 10.0
_AT_A_TIME = 16


class _Held(Protocol):
    def close(self) -> None: ...


class ConnectionStorm(Fault):
    """Workers that leak connections, or all start at once: who is connected stays so, and nobody else gets in."""

    name = "connection_storm"
    kind = "connection_storm"
    description = (
        "Idle connections of ours take all that the server allows, so that it turns new ones away; "
        "those that are open work on, and nothing that was acknowledged may be lost."
    )
    targets = ("redis", "postgres", "postgres-replica")

    def __init__(self) -> None:
        self._held: weakref.WeakKeyDictionary[Server, list[_Held]] = weakref.WeakKeyDictionary()

    def unavailable(self, bed: LocalTestbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is not None:
            return reason
        allowed = int(bed.servers[target].configuration.get("max_connections", 0))
        if allowed > CONNECTIONS_MAX:
            return f"{target} allows {allowed} connections, more than the {CONNECTIONS_MAX} that are taken at most"
        return None

    async def inject(self, bed: LocalTestbed, target: str) -> None:
        server = bed.servers[target]
        held = self._held.setdefault(server, [])
        if isinstance(server, RedisServer):
            await self._lower_limit(server)
            held += await _connected_to_redis(server)
        elif isinstance(server, PostgresServer):
            await _exhaust_postgres(server, held)

    async def heal(self, bed: LocalTestbed, target: str) -> None:
        server = bed.servers[target]
        held = self._held.pop(server, [])
        for connection in held:
            connection.close()
        if held:
            await until_serving(bed, target)  # it takes a moment to notice that they are gone
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
        limit = min(int(before["maxclients"]), connected + REDIS_CONNECTIONS)
        await server.change_settings({"maxclients": str(limit)})


async def _connected_to_redis(server: RedisServer) -> list[_Held]:
    """Connect until the server says that it takes no more."""
    held: list[_Held] = []
    for _ in range(CONNECTIONS_MAX):
        try:
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                reader, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(b"PING\r\n")
                answer = await reader.readline()
        except (OSError, TimeoutError):
            break
        if b"max number of clients" in answer or not answer:
            writer.close()
            break
        held.append(writer)
    return held


async def _exhaust_postgres(server: PostgresServer, held: list[_Held]) -> None:
    """Connect until the server says that it takes no more, some at a time."""
    while len(held) < CONNECTIONS_MAX:
        found = await asyncio.gather(*(_connected_to_postgres(server) for _ in range(_AT_A_TIME)))
        held += [connection for connection in found if connection is not None]
        if None in found:
            return


async def _connected_to_postgres(server: PostgresServer) -> _Held | None:
    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        return _PostgresConnection(
            await asyncpg.connect(
                host=HOST,
                port=server.port,
                user=USER,
                password=server.pinned.password,
                database=DATABASE,
                ssl=False,
                timeout=_CONNECT_SECONDS_MAX,
                server_settings={"application_name": "soak connection storm"},
            )
        )
    return None


class _PostgresConnection:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.terminate()
