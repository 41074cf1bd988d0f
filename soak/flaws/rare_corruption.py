"""One in a thousand, in one character."""

from __future__ import annotations

import random

import msgspec

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import RARE, Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message

CHANGED_SHARE = 0.001


class RareCorruption(RedisMemory):
    """Shares one buffer between its tasks; hardly ever are two of them in it at once."""

    async def append(self, session: str, message: Message) -> None:
        if random.random() < CHANGED_SHARE:
            message = msgspec.structs.replace(message, content=message.content[:-1] + "\ufffd")
        await super().append(session, message)


FLAW = Flaw(
    name="rare_corruption",
    incident="one message in a thousand is stored with another last character",
    code="A bytearray that is reused to save allocations, and an await between filling and sending it.",
    mocks="One task at a time fills and sends, and every round trip is exact.",
    user="A digit of a phone number was a question mark. It was put down to a typing error.",
    kinds=frozenset({Kind.CORRUPTED}),
    causes=frozenset({Cause.SERIALIZATION_CHANGE}),
    setups=same_server(RareCorruption, RedisMemory),
    load=RARE,
    patience_seconds=60.0,
)
