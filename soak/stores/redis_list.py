"""A session is a list: RPUSH remembers, LRANGE recalls. The order is the one in which the server took the messages."""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.message import Message, Stored, decode_history
from soak.stores.redis_errors import ReplyError, judged
from soak.stores.redis_store import RedisStore


class RedisListStore(RedisStore):
    """Conversations as Redis lists."""

    description = "one Redis list per session: RPUSH, LRANGE"
    layout = "list"

    async def append(self, session: str, message: Message) -> None:
        try:
            await self._pool.execute("RPUSH", self.key(session), message.to_bytes())
        except ReplyError as error:
            raise judged(error) from error

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        # LRANGE -0 -1 would be everything.
        first = 0 if last is None else -last
        if last is not None and last <= 0:
            return []
        return decode_history(await self._pool.execute("LRANGE", self.key(session), first, -1))
