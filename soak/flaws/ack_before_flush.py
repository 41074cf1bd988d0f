"""200 OK, and then the writing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from soak.flaws.flaw import GONE, Disturbance, Flaw, Load, WrongFrom, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.model.causes import Cause
from soak.model.message import decode_history
from soak.stores import Contract, Message, Reads, StoreContext, Stored

FLUSH_SECONDS = 1.0
CONTRACT = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=2.0)
"""Another process may see it a moment later. Losing it is not allowed."""


class AckBeforeFlush(RedisMemory):
    """Collects messages in memory, answers at once, and writes them together a little later."""

    contract: ClassVar[Contract] = CONTRACT

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._waiting: list[tuple[str, bytes]] = []
        self._lock = asyncio.Lock()
        self._flushing = asyncio.create_task(self._flush_forever())

    async def append(self, session: str, message: Message) -> None:
        self._waiting.append((session, message.to_bytes()))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        async with self._lock:
            rows = await self.redis.lrange(self.key(session), 0, -1)
            rows += [raw for name, raw in self._waiting if name == session]
        return decode_history(rows if last is None else rows[-last:])

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        async with self._lock, self.redis.pipeline(transaction=True) as pipe:
            written = len(self._waiting)
            for session, raw in self._waiting:
                pipe.rpush(self.key(session), raw)
            await pipe.execute()
            del self._waiting[:written]

    async def close(self) -> None:
        self._flushing.cancel()
        await self._flush()
        await super().close()


class FlushBeforeAck(RedisMemory):
    """Answers when the server has answered."""

    contract: ClassVar[Contract] = CONTRACT


# Twice: a process that dies just after it has flushed has lost nothing.
_DEATHS = Disturbance(fault="kill_load", target="load", times=2)
_WRONG, _RIGHT = same_server(AckBeforeFlush, FlushBeforeAck, _DEATHS)

FLAW = Flaw(
    name="ack_before_flush",
    night="200 is returned, the write is flushed later, the process dies",
    code="A buffer and a background task: one round trip for a hundred messages, and a p99 to be proud of.",
    mocks="The test reads through the same process, and so through the same buffer.",
    user="The pod was rescheduled in the middle of a sentence. The sentence had been acknowledged.",
    kinds=GONE,
    causes=frozenset({Cause.UNSYNCED_TAIL}),
    wrong=_WRONG,
    right=_RIGHT,
    load=Load(users=12),
    wrong_from=WrongFrom.FAULT_ENDED,
)
