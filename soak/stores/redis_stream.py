"""A session is a stream: XADD with a server-assigned id remembers, XRANGE recalls."""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.message import Message, Stored, decode_history
from soak.stores.redis_errors import ReplyError, judged
from soak.stores.redis_store import RedisStore

_FIELD = b"m"


class RedisStreamStore(RedisStore):
    """Conversations as Redis streams. Ids never go back, even when the server's clock does."""

    description = "one Redis stream per session: XADD, XRANGE, the last N by XREVRANGE"
    layout = "stream"

    async def append(self, session: str, message: Message) -> None:
        try:
            await self._pool.execute("XADD", self.key(session), "*", _FIELD, message.to_bytes())
        except ReplyError as error:
            raise judged(error) from error

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is None:
            entries = await self._pool.execute("XRANGE", self.key(session), "-", "+")
        elif last > 0:
            entries = await self._pool.execute("XREVRANGE", self.key(session), "+", "-", "COUNT", last)
            entries.reverse()
        else:
            return []
        return decode_history([_value(fields) for _, fields in entries])


def _value(fields: list[bytes]) -> bytes:
    # An entry that somebody else shaped is passed on whole, to be shown as what it is.
    return fields[1] if len(fields) == 2 and fields[0] == _FIELD else b"\xc1" + b"\0".join(fields)
