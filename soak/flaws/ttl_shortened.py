"""One line."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Contract, Message

PROMISED_SECONDS = 3600
SHORT_SECONDS = 2
"""Five minutes in the incident; two seconds here, so that nobody has to wait."""


class TtlShortened(RedisMemory):
    """A session lives for an hour after its last message; so the contract says."""

    contract: ClassVar[Contract] = Contract(ttl_seconds=PROMISED_SECONDS)
    ttl_seconds: ClassVar[int] = SHORT_SECONDS

    async def append(self, session: str, message: Message) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.rpush(self.key(session), message.to_bytes())
            pipe.expire(self.key(session), self.ttl_seconds)
            await pipe.execute()


class TtlAsPromised(TtlShortened):
    """The same, with the time that was promised."""

    ttl_seconds: ClassVar[int] = PROMISED_SECONDS


FLAW = Flaw(
    name="ttl_shortened",
    incident="one line changes the expiry policy; every session is gone after five minutes",
    code="ttl_seconds = 300, in a change about something else. It used to be 3600.",
    mocks="A mock does not expire anything, and no test waits for five minutes.",
    user="Went for coffee, came back, and was asked for their name.",
    kinds=GONE,
    causes=frozenset({Cause.EXPIRY}),
    setups=same_server(TtlShortened, TtlAsPromised),
    load=Load(session_messages=8, recall_share=0.2),
    latent_seconds=SHORT_SECONDS,
)
