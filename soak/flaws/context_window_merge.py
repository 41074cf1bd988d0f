"""Every command is atomic; what is between two of them is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from soak.checker.causes import Cause
from soak.checker.message import decode_history
from soak.flaws.flaw import GONE, SHARED_SESSIONS, Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, Stored


class ContextWindowMerge(RedisMemory):
    """Keeps the context window as a hash: each message under its place in the window."""

    async def append(self, session: str, message: Message) -> None:
        place = await self.redis.hlen(self.key(session))
        await asyncio.sleep(0.005)  # merges it with what the window holds
        await self.redis.hset(self.key(session), place, message.to_bytes())

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        window = await self.redis.hgetall(self.key(session))
        rows = [window[place] for place in sorted(window, key=int)]
        return decode_history(rows if last is None else rows[-last:])


FLAW = Flaw(
    name="context_window_merge",
    incident="read-then-write merge of a context window around atomic HSET/ZADD",
    code="append() asks where the window ends (HLEN) and writes there (HSET). Both are atomic, as the review noted.",
    mocks="A mock has one caller. Two real ones are told the same end and write to the same place.",
    user="The assistant answered a question and, asked again, knew nothing of having been asked.",
    kinds=GONE,
    causes=frozenset({Cause.CONCURRENT_OVERWRITE}),
    setups=same_server(ContextWindowMerge, RedisMemory),
    load=SHARED_SESSIONS,
)
