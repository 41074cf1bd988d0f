"""A memory of your own: four methods are all that soak needs."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from soak.stores import Contract, Message, StoreContext


class MyMemory:
    """Conversations as JSON in Redis lists."""

    needs = ("redis",)  # soak starts one, or hands over the address of yours
    contract = Contract(crash_loss_seconds=2, power_loss_seconds=2)  # what "appendfsync everysec" can promise

    def __init__(self, context: StoreContext) -> None:
        self._prefix = f"{context.namespace}:my-memory:"
        # redis-py retries after an error by default, and an RPUSH that is sent twice is stored twice.
        timeout = context.timeout_seconds
        self._redis = Redis.from_url(context.servers["redis"], socket_timeout=timeout, retry=Retry(NoBackoff(), 0))

    async def append(self, session: str, message: Message) -> None:
        await self._redis.rpush(self._prefix + session, message.to_json())

    async def history(self, session: str, last: int | None = None) -> list[Message]:
        if last == 0:
            return []  # LRANGE -0 -1 would be everything
        rows = await self._redis.lrange(self._prefix + session, -last if last else 0, -1)
        return [Message.from_json(row) for row in rows]

    async def forget(self, session: str) -> None:
        await self._redis.delete(self._prefix + session)

    async def close(self) -> None:
        await self._redis.aclose()
