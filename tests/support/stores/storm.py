"""Memories for the storm: two that rightly let go of messages, and one that is right but for one thing."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from soak.checker.contract import Contract, Expiry
from soak.checker.message import Message
from soak.stores.protocol import StoreContext
from soak.stores.redis_client import RedisScript, ReplyError, judged
from soak.stores.redis_stores import AOF_EVERYSEC_CONTRACT, RedisListStore

KEPT = 24
SHORT_SECONDS = 12.0
ONE_IN = 20

_TRIM = RedisScript(
    "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('LTRIM', KEYS[1], -tonumber(ARGV[2]), -1)",
)
_EXPIRE = RedisScript("redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('PEXPIRE', KEYS[1], ARGV[2])")


class LastFew(RedisListStore):
    """Keeps the last so many messages of each session, and trims the rest in the same step."""

    layout = "lastfew"
    contract: ClassVar[Contract] = msgspec.structs.replace(AOF_EVERYSEC_CONTRACT, retained_messages=KEPT)

    async def append(self, session: str, message: Message) -> None:
        try:
            await _TRIM.run(self._client, self.key(session), message.to_bytes(), KEPT)
        except ReplyError as error:
            raise judged(error) from error


class ShortLived(RedisListStore):
    """Forgets a session some seconds after its last message, by the server's clock."""

    layout = "shortlived"

    @classmethod
    def contract_for(cls, context: StoreContext) -> Contract:  # noqa: ARG003  it is asked with it
        return msgspec.structs.replace(AOF_EVERYSEC_CONTRACT, ttl_seconds=SHORT_SECONDS, expiry=Expiry.SLIDING)

    async def append(self, session: str, message: Message) -> None:
        try:
            await _EXPIRE.run(self._client, self.key(session), message.to_bytes(), int(SHORT_SECONDS * 1000))
        except ReplyError as error:
            raise judged(error) from error


class AlmostRight(RedisListStore):
    """A list like any other, except that it says yes to one message in twenty and does not keep it."""

    layout = "almost"
    _count = 0

    async def append(self, session: str, message: Message) -> None:
        self._count += 1
        if self._count % ONE_IN:
            await super().append(session, message)
