"""Deleted, and put back with the best intentions."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, StoreContext

CHECK_SECONDS = 0.2


class DeleteThenLateWrite(RedisMemory):
    """Makes sure a little later that what was written is there, and mends it from a copy if it is not."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._copies: dict[str, list[bytes]] = defaultdict(list)
        self._checks: set[asyncio.Task[None]] = set()

    async def append(self, session: str, message: Message) -> None:
        await super().append(session, message)
        self._copies[session].append(message.to_bytes())
        check = asyncio.create_task(self._check(session))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _check(self, session: str) -> None:
        await asyncio.sleep(CHECK_SECONDS)
        if not await self.redis.exists(self.key(session)) and (copy := self._copies.pop(session, None)):
            await self.redis.rpush(self.key(session), *copy)

    async def close(self) -> None:
        await asyncio.gather(*self._checks, return_exceptions=True)
        await super().close()


FLAW = Flaw(
    name="delete_then_late_write",
    incident="a forgotten conversation comes back",
    code="A self-healing cache: whatever is missing a moment after a write is put back.",
    mocks="The test of forget() looks at once, and it is gone.",
    user="Asked to be forgotten, was told it was done, and was greeted by name the next day.",
    kinds=frozenset({Kind.RESURRECTED}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(DeleteThenLateWrite, RedisMemory),
    load=Load(session_messages=8, forget_share=1.0, raced_share_max=1.0),
)
