"""One bad row, and the whole session cannot be read."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, Stored

OLD_SHARE = 0.005
_OLD_MARK = "v1|"


class RaisingReader(RedisMemory):
    """Reads JSON. One worker in a corner of the cluster still writes what was before JSON."""

    async def append(self, session: str, message: Message) -> None:
        text = message.to_json()
        is_old = random.random() < OLD_SHARE
        await self.redis.rpush(self.key(session), _OLD_MARK + text if is_old else text)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self.redis.lrange(self.key(session), 0 if last is None else -last, -1)
        return [Message(*json.loads(self.text_of(row))) for row in rows]

    @staticmethod
    def text_of(row: bytes) -> str:
        return row.decode()


class ReadsBothForms(RaisingReader):
    """Knows the old form, too."""

    @staticmethod
    def text_of(row: bytes) -> str:
        return row.decode().removeprefix(_OLD_MARK)


FLAW = Flaw(
    name="raising_reader",
    incident="one row of an old release makes json.loads raise: that session can never be read again",
    code="[json.loads(row) for row in rows]: one row that is no JSON, and the other five hundred are gone with it.",
    mocks="Fixtures are written by the code that reads them.",
    user="One customer in two hundred got an error page, every day, and only that customer.",
    kinds=frozenset({Kind.UNDECODABLE}),
    # The error says what json.loads said; that the rows differ is inside the store.
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(RaisingReader, ReadsBothForms),
    says=("reading this session raised",),
)
