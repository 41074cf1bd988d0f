"""A better format, as long as everybody has it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, Stored

COMPRESSED_FROM_BYTES = 200


class SerializerV2(RedisMemory):
    """The writing service packs longer messages since last week; the reading service was not deployed yet."""

    async def append(self, session: str, message: Message) -> None:
        raw = message.to_bytes()
        if len(raw) >= COMPRESSED_FROM_BYTES:
            raw = zlib.compress(raw)
        await self.redis.rpush(self.key(session), raw)


class BothFormatsRead(SerializerV2):
    """The reader learns the new format first, and keeps the old one."""

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self.redis.lrange(self.key(session), 0 if last is None else -last, -1)
        return decode_history([zlib.decompress(raw) if raw[:1] == b"\x78" else raw for raw in rows])


FLAW = Flaw(
    name="serializer_v2",
    incident="an 'optimised' serialization that old readers cannot read, or that drops a field",
    code="if len(raw) >= 200: raw = zlib.compress(raw). A third of the memory saved, as the change says.",
    mocks='The round-trip test runs writer and reader of one version, and says "hello", which is never packed.',
    user="Short conversations went on as ever; whoever had told a longer story was a stranger.",
    kinds=frozenset({Kind.UNDECODABLE, Kind.CORRUPTED}),
    causes=frozenset({Cause.SERIALIZATION_CHANGE}),
    setups=same_server(SerializerV2, BothFormatsRead),
)
