"""The same words are not the same message."""

from __future__ import annotations

import hashlib

from soak.flaws.flaw import GONE, Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.model.causes import Cause
from soak.stores import Message


class ContentDedup(RedisMemory):
    """Drops a message that is there already, against double sends."""

    async def append(self, session: str, message: Message) -> None:
        digest = hashlib.sha256(f"{message.role}:{message.content}".encode()).hexdigest()
        if await self.redis.sadd(self.key(session) + ":seen", digest):
            await super().append(session, message)


_WRONG, _RIGHT = same_server(ContentDedup, RedisMemory)

FLAW = Flaw(
    name="content_dedup",
    night='"continue" said twice is stored once',
    code="if the hash of role and content is known, skip it: a cure for double clicks.",
    mocks="Every message of a test is another one.",
    user="Said 'yes' a second time; the assistant waited for an answer.",
    kinds=GONE,
    causes=frozenset({Cause.SWALLOWED_ERROR, Cause.UNKNOWN}),
    wrong=_WRONG,
    right=_RIGHT,
    load=Load(mix="short"),
)
