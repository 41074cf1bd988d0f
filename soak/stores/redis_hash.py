"""A session is a context under one key that expires when nobody has spoken for a while.

The hash holds each message under its position, and the number of messages under `n`. Position, message and the
new expiry are set in one script: nobody ever sees one without the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from soak.checker.contract import Contract, Expiry
from soak.checker.message import Message, Stored, decode_history
from soak.stores.protocol import StoreContext
from soak.stores.redis_errors import ReplyError, judged
from soak.stores.redis_pool import RedisPool
from soak.stores.redis_script import RedisScript
from soak.stores.redis_store import AOF_EVERYSEC_CONTRACT, RedisStore

DEFAULT_TTL_SECONDS = 3600.0

_LENGTH_FIELD = b"n"

_APPEND = RedisScript("""
-- Take the next position, put the message there, and let the whole session live on for its time.
local position = redis.call('HINCRBY', KEYS[1], 'n', 1)
redis.call('HSET', KEYS[1], position, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return position
""")

_LAST = RedisScript("""
-- Return the last so many messages, of one moment.
local length = tonumber(redis.call('HGET', KEYS[1], 'n') or 0)
local messages = {}
for position = math.max(1, length - ARGV[1] + 1), length do
  local message = redis.call('HGET', KEYS[1], position)
  if message then
    messages[#messages + 1] = message
  end
end
return messages
""")


class RedisHashStore(RedisStore):
    """Session contexts as Redis hashes with a sliding time to live."""

    description = "one Redis hash per session under a sliding TTL (one hour unless set), by position"
    layout = "hash"

    def __init__(self, pool: RedisPool, context: StoreContext) -> None:
        super().__init__(pool, context)
        self._ttl_ms = max(1, round(_ttl_seconds(context) * 1000))

    @classmethod
    def contract_for(cls, context: StoreContext) -> Contract:
        return msgspec.structs.replace(AOF_EVERYSEC_CONTRACT, ttl_seconds=_ttl_seconds(context), expiry=Expiry.SLIDING)

    async def append(self, session: str, message: Message) -> None:
        try:
            await _APPEND.run(self._pool, self.key(session), message.to_bytes(), self._ttl_ms)
        except ReplyError as error:
            raise judged(error, of_script=True) from error

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is None:
            return decode_history(_by_position(await self._pool.execute("HGETALL", self.key(session))))
        if last <= 0:
            return []
        return decode_history(await _LAST.run(self._pool, self.key(session), last))


def _ttl_seconds(context: StoreContext) -> float:
    return DEFAULT_TTL_SECONDS if context.ttl_seconds is None else context.ttl_seconds


def _by_position(flat: list[bytes]) -> list[bytes]:
    """Put the answer of HGETALL, which has no order, into the order of the conversation."""
    rows = dict(zip(flat[0::2], flat[1::2], strict=True))
    rows.pop(_LENGTH_FIELD, None)
    try:
        return [rows[field] for field in sorted(rows, key=int)]
    except ValueError:
        # A field that is no position was not put there by us: it is shown last and hides no other.
        return [rows[field] for field in sorted(rows, key=_position_or_last)]


def _position_or_last(field: bytes) -> tuple[bool, int, bytes]:
    is_position = field.isdigit()
    return (not is_position, int(field) if is_position else 0, field)
