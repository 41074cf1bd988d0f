"""Servers in containers: what can be done to them beyond what can be done to all, for they have a memory limit."""

from __future__ import annotations

import abc

import asyncpg
import redis.exceptions
from redis.exceptions import RedisError

from soak.errors import ServerUnreachableError
from soak.servers.docker.container import ContainerVessel
from soak.servers.postgres import PostgresReplica, PostgresServer
from soak.servers.redis import RedisServer
from soak.servers.server import Server

EXHAUST_SECONDS_MAX = 60.0
_PIECE_BYTES = 2**20
# Held in the memory of the script, not in any key.
_SCRIPT = "local piece = string.rep('x', ARGV[1]) return #string.rep(piece, ARGV[2])"
# Held in the memory of one session, which is told to keep it there.
_QUERY = (
    "with held as materialized (select repeat('x', {bytes}) || number as part from generate_series(1, {count}) number) "
    "select max(length(part))::text as longest from held"
)


class ContainedServer(Server):
    """A server whose memory can be used up."""

    async def exhaust_memory(self) -> None:
        """Use memory up until the kernel kills the server; it stays down until `start_again`."""
        vessel = self.vessel
        if not isinstance(vessel, ContainerVessel):
            raise TypeError(vessel)
        async with self._planned:
            await self._unwatch()
            was_killed = not await self.survives_taking(2 * vessel.memory_bytes)
            await self._crash()
        if not was_killed:
            raise ServerUnreachableError(
                f"{self.title} was made to use its memory up and was not killed for it; "
                "see that the kernel of the Docker engine enforces memory limits"
            )

    @abc.abstractmethod
    async def survives_taking(self, size_bytes: int) -> bool:
        """Make the server use so much memory, and tell whether it lived to answer."""


class ContainedRedis(ContainedServer, RedisServer):
    """A Redis or Valkey in a container."""

    async def survives_taking(self, size_bytes: int) -> bool:
        try:
            async with self.client(EXHAUST_SECONDS_MAX) as client:
                await client.eval(_SCRIPT, 0, str(_PIECE_BYTES), str(size_bytes // _PIECE_BYTES))
        except redis.exceptions.ConnectionError:
            return False
        except RedisError:
            return True  # it refused, or is still at it
        return True


class ContainedPostgres(ContainedServer, PostgresServer):
    """A PostgreSQL in a container. The kernel kills the session that is largest, and with it all others."""

    async def survives_taking(self, size_bytes: int) -> bool:
        query = _QUERY.format(bytes=_PIECE_BYTES, count=size_bytes // _PIECE_BYTES)
        try:
            connection = await asyncpg.connect(self.address(self.port), timeout=EXHAUST_SECONDS_MAX)
            try:
                await connection.execute(f"set work_mem = '{size_bytes // 1024}kB'")
                await connection.execute(query, timeout=EXHAUST_SECONDS_MAX)
            finally:
                connection.terminate()
        except (asyncpg.PostgresConnectionError, ConnectionError):
            return False
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return True  # it refused, or is still at it
        return True


class ContainedReplica(ContainedPostgres, PostgresReplica):
    """A replica in a container."""
