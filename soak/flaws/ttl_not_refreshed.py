"""Counted from the first message, not from the last."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Contract, Message

TTL_SECONDS = 3


class TtlNotRefreshed(RedisMemory):
    """A session lives for a while after its last message; so the contract says."""

    contract: ClassVar[Contract] = Contract(ttl_seconds=TTL_SECONDS)

    async def append(self, session: str, message: Message) -> None:
        if await self.redis.rpush(self.key(session), message.to_bytes()) == 1:
            await self.redis.expire(self.key(session), TTL_SECONDS)


class TtlRefreshed(TtlNotRefreshed):
    """Every message prolongs the life of its session, in the same breath."""

    async def append(self, session: str, message: Message) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.rpush(self.key(session), message.to_bytes())
            pipe.expire(self.key(session), TTL_SECONDS)
            await pipe.execute()


FLAW = Flaw(
    name="ttl_not_refreshed",
    incident="TTL set once at creation; a long conversation dies in the middle",
    code="The expiry is set when the session is created. Appending to a list does not move it.",
    mocks="Test conversations are shorter than the time to live.",
    user="In the middle of a long evening, between two sentences, the assistant forgot who it was talking to.",
    kinds=GONE,
    causes=frozenset({Cause.EXPIRY}),
    setups=same_server(TtlNotRefreshed, TtlRefreshed),
    load=Load(session_messages=2_000, think_seconds=0.1),
    latent_seconds=0.0,
)
