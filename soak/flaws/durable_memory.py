"""Conversation memories on Redis that promise to keep everything, whatever their server does."""

from __future__ import annotations

from typing import ClassVar

from soak.flaws.redis_memory import RedisMemory
from soak.stores import Contract, Message


class PromisesEverything(RedisMemory):
    """Says that what is acknowledged is on the disk."""

    contract: ClassVar[Contract] = Contract(crash_loss_seconds=0.0, power_loss_seconds=0.0, failover_loss_seconds=0.0)


class WaitsForTheDisk(PromisesEverything):
    """Asks for that: WAITAOF answers when the file of the server is said to be synced."""

    async def append(self, session: str, message: Message) -> None:
        async with self.redis.pipeline(transaction=False) as pipeline:
            pipeline.rpush(self.key(session), message.to_bytes())
            pipeline.execute_command("WAITAOF", 1, 0, 1000)
            _, (synced, _) = await pipeline.execute()
        if synced < 1:
            raise TimeoutError("the append-only file was not synced in time")
