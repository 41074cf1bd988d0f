"""Sorted by a clock that is not the only one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import SHARED_SESSIONS, Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, Stored

DRIFT_SECONDS = 0.3


class AppClockOrder(RedisMemory):
    """A sorted set, scored by the time at which the application made the message."""

    async def append(self, session: str, message: Message) -> None:
        created_at = time.time() - self._drift_seconds(message)
        await self.redis.zadd(self.key(session), {message.to_bytes(): created_at})

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return decode_history(await self.redis.zrange(self.key(session), 0 if last is None else -last, -1))

    @staticmethod
    def _drift_seconds(message: Message) -> float:
        # Every other writer is served by the second machine, whose clock is a little slow.
        return DRIFT_SECONDS if message.writer % 2 else 0.0


FLAW = Flaw(
    name="app_clock_order",
    incident="created_at made in application code; clock drift and coroutine scheduling put later messages first",
    code="created_at = time.time(), and ORDER BY created_at: on the application's machines, of which there are two.",
    mocks="Tests run on one machine with one clock, or freeze it.",
    user="The answer stood before the question, and the model took the old address for the new one.",
    kinds=frozenset({Kind.REORDERED}),
    causes=frozenset({Cause.CLIENT_CLOCK}),
    setups=same_server(AppClockOrder, RedisMemory),
    load=SHARED_SESSIONS,
)
