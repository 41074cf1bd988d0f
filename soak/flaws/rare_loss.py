"""One in a thousand."""

from __future__ import annotations

import random

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, RARE, Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message

LOST_SHARE = 0.001


class RareLoss(RedisMemory):
    """Writes through a queue. When the queue is full, which it hardly ever is, the message is dropped."""

    async def append(self, session: str, message: Message) -> None:
        if random.random() < LOST_SHARE:
            return
        await super().append(session, message)


FLAW = Flaw(
    name="rare_loss",
    incident="one message in a thousand is dropped by a full queue, acknowledged, and never written",
    code="except asyncio.QueueFull: pass, around put_nowait().",
    mocks="A thousand tests of one message each find it once, and it is re-run.",
    user="Now and then the assistant had not heard one sentence. Nobody could reproduce it.",
    kinds=GONE,
    # Where it was the last of its session a dropped write looks like a read that stopped short.
    causes=frozenset({Cause.SWALLOWED_ERROR, Cause.UNKNOWN}),
    setups=same_server(RareLoss, RedisMemory),
    load=RARE,
    patience_seconds=60.0,
)
