"""A limit from the wrong end."""

from __future__ import annotations

from collections.abc import Sequence

from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.model.causes import Cause
from soak.model.kinds import Kind
from soak.model.message import decode_history
from soak.stores import Stored

READ_MAX = 1_000


class ReadCap(RedisMemory):
    """Reads at most so many messages, from the beginning."""

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        limit = READ_MAX if last is None else min(last, READ_MAX)
        return decode_history(await self.redis.lrange(self.key(session), 0, limit - 1))


_WRONG, _RIGHT = same_server(ReadCap, RedisMemory)

FLAW = Flaw(
    name="read_cap",
    night="the read silently stops at 1,000 messages and returns the oldest",
    code="ORDER BY created_at LIMIT :n, where DESC was meant; or a page size of 1,000 that nobody knew of.",
    mocks="Test conversations are shorter than any limit, and then the first so many are the last so many.",
    user="The assistant remembered the first day very well, and nothing since.",
    kinds=frozenset({Kind.WINDOW}),
    causes=frozenset({Cause.UNKNOWN}),
    wrong=_WRONG,
    right=_RIGHT,
    load=Load(users=6, session_messages=300, think_seconds=0.02),
)
