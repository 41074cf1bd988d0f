"""A conversation memory on Redis as most people write it, and write it right: the ground the flaws stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from soak.checker.message import decode_history
from soak.servers.kinds import REDIS
from soak.stores import Contract, Message, StoreContext, Stored

CONNECTIONS_MAX = 128
NO_RETRIES = Retry(NoBackoff(), 0)


class RedisMemory:
    """A session is a list under one key: RPUSH remembers, LRANGE recalls."""

    needs: ClassVar[tuple[str, ...]] = (REDIS.name,)

    def __init__(self, context: StoreContext) -> None:
        self.redis: Any = self.connect(context)
        self._prefix = f"{context.namespace}:{type(self).__name__}:"

    def connect(self, context: StoreContext) -> Any:
        return Redis.from_url(
            context.servers[REDIS.name],
            socket_timeout=context.timeout_seconds,
            socket_connect_timeout=context.timeout_seconds,
            max_connections=CONNECTIONS_MAX,
            retry=NO_RETRIES,
        )

    def key(self, session: str) -> str:
        return self._prefix + session

    async def append(self, session: str, message: Message) -> None:
        await self.redis.rpush(self.key(session), message.to_bytes())

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return decode_history(await self.redis.lrange(self.key(session), 0 if last is None else -last, -1))

    async def forget(self, session: str) -> None:
        await self.redis.delete(self.key(session))

    async def close(self) -> None:
        await self.redis.aclose()


class EverySecondMemory(RedisMemory):
    """The same, with the promise of `appendonly yes, appendfsync everysec`: at most two seconds are lost."""

    contract: ClassVar[Contract] = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=2.0)
