"""A limit that nobody knew of."""

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
    """Reads the first page and takes it for the whole; what is beyond it is stored, and hidden."""

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        page = await self.redis.lrange(self.key(session), 0, READ_MAX - 1)
        return decode_history(page if last is None else page[max(0, len(page) - last) :])


_WRONG, _RIGHT = same_server(ReadCap, RedisMemory)

FLAW = Flaw(
    name="read_cap",
    night="the read silently stops at 1,000 messages and returns the oldest",
    code="messages = index.query(limit=1000)[-n:], a page size of 1,000 that nobody knew of, and no second page.",
    mocks="Test conversations are shorter than any limit, and then the first page is the whole.",
    user="The assistant remembered the first weeks very well, and nothing since.",
    kinds=frozenset({Kind.WINDOW, Kind.LOST}),
    causes=frozenset({Cause.SWALLOWED_ERROR, Cause.UNKNOWN}),
    wrong=_WRONG,
    right=_RIGHT,
    # One session in each store, in which is talked without a pause: the limit is a thousand messages away.
    load=Load(
        users=2,
        session_messages=20_000,
        think_seconds=0.0,
        recall_share=0.0,
        reread_share=0.0,
        mix="short",
    ),
    patience_seconds=60.0,
)
