"""Read once, believed for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, StoreContext, Stored

CACHE_SECONDS = 0.4
SESSIONS_MAX = 10_000


class Cached(NamedTuple):
    """What a session was, in which version, and when."""

    rows: list[bytes]
    version: bytes | None
    at: float


class ReadCache(RedisMemory):
    """Reads through a cache of its own process, which no write empties."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._cache: dict[str, Cached] = {}

    def version_key(self, session: str) -> str:
        return self.key(session) + ":version"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        known = self._cache.get(session)
        if known is None or not await self.is_fresh(session, known):
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.lrange(self.key(session), 0, -1)
                pipe.get(self.version_key(session))
                rows, version = await pipe.execute()
            known = Cached(rows, version, time.monotonic())
            if len(self._cache) >= SESSIONS_MAX:
                self._cache.clear()
            self._cache[session] = known
        return decode_history(known.rows if last is None else known.rows[-last:])

    async def is_fresh(self, session: str, known: Cached) -> bool:  # noqa: ARG002  that is what is wrong
        return time.monotonic() - known.at < CACHE_SECONDS


class ValidatedCache(ReadCache):
    """Every write raises the version of its session; the cache answers only for the version it holds."""

    async def append(self, session: str, message: Message) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.rpush(self.key(session), message.to_bytes())
            pipe.incr(self.version_key(session))
            await pipe.execute()

    async def forget(self, session: str) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.delete(self.key(session))
            pipe.incr(self.version_key(session))
            await pipe.execute()

    async def is_fresh(self, session: str, known: Cached) -> bool:
        return bool(await self.redis.get(self.version_key(session)) == known.version)


FLAW = Flaw(
    name="read_cache",
    incident="a read-through cache of each process is not emptied by a write: reads are old for a while",
    code="@cached(ttl=30) over history(). Thirty seconds in the incident, less than one here.",
    mocks="A test writes, then reads for the first time.",
    user="Answered a question, and was asked it again.",
    kinds=frozenset({Kind.STALE, Kind.NON_MONOTONIC}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(ReadCache, ValidatedCache),
)
