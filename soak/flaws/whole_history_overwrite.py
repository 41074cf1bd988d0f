"""Read the conversation, add to it, write it back: the most natural way to lose a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from soak.checker.causes import Cause
from soak.checker.message import decode_history
from soak.flaws.flaw import GONE, SHARED_SESSIONS, Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, Stored


class WholeHistoryOverwrite(RedisMemory):
    """Keeps the conversation as one value."""

    async def append(self, session: str, message: Message) -> None:
        history = await self._load(session)
        await asyncio.sleep(0.01)  # counts tokens, calls a tool, waits for the model
        await self.redis.set(self.key(session), msgspec.msgpack.encode([*history, message.to_bytes()]))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self._load(session)
        return decode_history(rows if last is None else rows[-last:])

    async def _load(self, session: str) -> list[bytes]:
        raw = await self.redis.get(self.key(session))
        return [] if raw is None else msgspec.msgpack.decode(raw, type=list[bytes])


FLAW = Flaw(
    name="whole_history_overwrite",
    incident="two concurrent requests read the session, append, write the whole list back; the older one wins",
    code="append() loads the conversation, adds the message and saves the conversation. Every line is right.",
    mocks="A test sends one message after the other. Only two at once read the same list and write two different ones.",
    user="Double-clicked Send, or a tool answered while they typed: one of the two messages had never been said.",
    kinds=GONE,
    causes=frozenset({Cause.CONCURRENT_OVERWRITE}),
    setups=same_server(WholeHistoryOverwrite, RedisMemory),
    load=SHARED_SESSIONS,
)
