"""A list that never grows too long."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message

KEPT = 100


class Trimmed(RedisMemory):
    """Keeps the last hundred messages. Its contract says all of them."""

    async def append(self, session: str, message: Message) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.rpush(self.key(session), message.to_bytes())
            pipe.ltrim(self.key(session), -KEPT, -1)
            await pipe.execute()


FLAW = Flaw(
    name="trimmed",
    incident="an LTRIM from a tutorial keeps the last 100 messages of a session; all of them are promised",
    code="pipe.ltrim(key, -100, -1), one line below the rpush it was copied with.",
    mocks="No test says a hundred and one things.",
    user="Long-standing customers were asked again what they had said in their first week.",
    kinds=GONE,
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(Trimmed, RedisMemory),
    # A few sessions, each of them longer than that.
    load=Load(users=8, session_messages=2_000, think_seconds=0.01, recall_share=0.0, mix="short"),
    patience_seconds=30.0,
    says=(f"exactly {KEPT} messages remain",),
)
