"""No connection free: skip it."""

from __future__ import annotations

import logging
from typing import Any

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, Load, same_server
from soak.flaws.redis_memory import NO_RETRIES, RedisMemory
from soak.servers.kinds import REDIS
from soak.stores import Message, StoreContext

WRITING_CONNECTIONS = 2

_log = logging.getLogger(__name__)


class PoolExhausted(RedisMemory):
    """Writes through a small pool of its own; when that is empty the message is skipped."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._writing: Any = Redis(connection_pool=self.pool(context), retry=NO_RETRIES)

    @staticmethod
    def pool(context: StoreContext) -> Any:
        return ConnectionPool.from_url(context.servers[REDIS.name], max_connections=WRITING_CONNECTIONS)

    async def append(self, session: str, message: Message) -> None:
        try:
            await self._writing.rpush(self.key(session), message.to_bytes())
        except RedisConnectionError as error:
            _log.debug("could not remember: %s", error)

    async def close(self) -> None:
        await self._writing.aclose(close_connection_pool=True)
        await super().close()


class PoolAwaited(PoolExhausted):
    """Waits for a connection, and raises when it waits too long."""

    @staticmethod
    def pool(context: StoreContext) -> Any:
        return BlockingConnectionPool.from_url(
            context.servers[REDIS.name], max_connections=WRITING_CONNECTIONS, timeout=context.timeout_seconds
        )

    async def append(self, session: str, message: Message) -> None:
        await self._writing.rpush(self.key(session), message.to_bytes())


FLAW = Flaw(
    name="pool_exhausted",
    incident="too few connections, or a leak; the write is skipped under load",
    code="max_connections=2, and an except clause that was written for a server that is down.",
    mocks="One request at a time needs one connection.",
    user="In the busy hour the assistant forgot every third sentence; the dashboards showed no errors.",
    kinds=GONE,
    causes=frozenset({Cause.SWALLOWED_ERROR}),
    setups=same_server(PoolExhausted, PoolAwaited),
    load=Load(users=24, think_seconds=0.02),
)
