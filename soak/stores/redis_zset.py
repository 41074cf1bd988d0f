"""A session is a sorted set, scored by a sequence that the server assigns.

The next score is the highest one plus one, found and used inside one script, so no two writers get the same.
No separate counter: it could be evicted or expire by itself, and the order would start anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.message import Message, Stored, decode_history
from soak.stores.redis_errors import ReplyError, judged
from soak.stores.redis_script import RedisScript
from soak.stores.redis_store import RedisStore

_APPEND = RedisScript("""
-- Add a member behind all others. One that is there already (the same name and content) stays where it is.
local newest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local score = newest[2] and tonumber(newest[2]) + 1 or 1
return redis.call('ZADD', KEYS[1], 'NX', score, ARGV[1])
""")


class RedisZsetStore(RedisStore):
    """Conversations as Redis sorted sets."""

    description = "one Redis sorted set per session, scored by a sequence assigned inside a script"
    layout = "zset"

    async def append(self, session: str, message: Message) -> None:
        try:
            await _APPEND.run(self._pool, self.key(session), message.to_bytes())
        except ReplyError as error:
            raise judged(error, of_script=True) from error

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        # ZRANGE -0 -1 would be everything.
        if last is not None and last <= 0:
            return []
        first = 0 if last is None else -last
        return decode_history(await self._pool.execute("ZRANGE", self.key(session), first, -1))
