"""One slot of a Redis Cluster as if it were one Redis: the primary that has the slot, whichever that is.

For data whose keys all have one hash tag. Its client is the ordinary one, so transactions, blocking reads and questions
about the server work as with a single server.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from soak.hosts import REDIS_PORT, ClusterAddress, HostPort

_MOVED = (MovedError, AskError, ReadOnlyError, ClusterDownError)
"""What a server answers that does not have the slot, or not any more."""


class SlotConnection(Connection):
    """A connection to whichever server has the slot when it is made."""

    def __init__(self, *, cluster: ClusterAddress, slot: int, **options: Any) -> None:
        super().__init__(**options)
        self._cluster = cluster
        self._slot = slot

    async def connect(self) -> None:
        if not self.is_connected:
            found = await primary_of(self._cluster, self._slot, timeout_seconds=self._patience())
            self.host, self.port = found.host, found.port or REDIS_PORT
        await super().connect()  # type: ignore[no-untyped-call]  # redis-py leaves it without types

    def _patience(self) -> float:
        return float(self.socket_connect_timeout or 0)

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*arguments, **options)
        except _MOVED as error:
            # The next command connects anew, to the server that has the slot then.
            await self.disconnect()
            raise RedisConnectionError(f"another server has the slot now ({error})") from error


class EncryptedSlotConnection(SlotConnection, SSLConnection):
    """The same over TLS."""


def slot_client(cluster: ClusterAddress, slot: int, *, timeout_seconds: float, **options: Any) -> Redis:
    """Return redis-py's client of the server that has a slot; nothing is tried twice."""
    tls: dict[str, Any] = {**cluster.ssl} if cluster.is_encrypted else {}
    pool = ConnectionPool(
        connection_class=EncryptedSlotConnection if cluster.is_encrypted else SlotConnection,
        cluster=cluster,
        slot=slot,
        username=cluster.username,
        password=cluster.password,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        **tls,
        **options,
    )
    return Redis.from_pool(pool)


async def primary_of(cluster: ClusterAddress, slot: int, *, timeout_seconds: float) -> HostPort:
    """Ask the nodes that the address names, one after the other, who has a slot."""
    problem: Exception = RedisConnectionError(f"{cluster} has no primary for slot {slot}")
    for node in cluster.nodes:
        try:
            # All of them are to have their time.
            async with asyncio.timeout(timeout_seconds / len(cluster.nodes)):
                answer = await _ask(cluster, node, "CLUSTER SLOTS")
        except AuthenticationError:
            raise
        except (RedisError, OSError, TimeoutError) as error:
            problem = error
            continue
        for first, last, (host, port, *_), *_ in answer:
            if first <= slot <= last:
                return HostPort(_text(host) or node.host, int(port))
    raise RedisConnectionError(f"{cluster} names no primary for slot {slot}: {problem}") from problem


async def ids_of_nodes(cluster: ClusterAddress, *, timeout_seconds: float) -> set[str]:
    """Return what the nodes of a cluster call each other, as the first of those that answers says."""
    for node in cluster.nodes:
        try:
            async with asyncio.timeout(timeout_seconds / len(cluster.nodes)):
                return {str(line["node_id"]) for line in (await _ask(cluster, node, "CLUSTER NODES")).values()}
        except (RedisError, OSError, TimeoutError):
            continue
    return set()


async def _ask(cluster: ClusterAddress, node: HostPort, *command: str) -> Any:
    options: dict[str, Any] = {"ssl": True, **cluster.ssl} if cluster.is_encrypted else {}
    client = Redis(
        host=node.host,
        port=node.port or 0,
        username=cluster.username,
        password=cluster.password,
        retry=Retry(NoBackoff(), 0),
        **options,
    )
    async with client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]


def _text(host: str | bytes | None) -> str:
    return host.decode() if isinstance(host, bytes) else host or ""
