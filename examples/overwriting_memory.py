"""A memory with a bug that tests rarely find: it reads the history, adds a message and writes everything back."""

import json

from examples.my_memory import MyMemory
from soak.stores import Message


class OverwritingMemory(MyMemory):
    """Whole conversations as one JSON value; of two who append at the same time, one is overwritten."""

    async def append(self, session: str, message: Message) -> None:
        rows = await self._rows(session)
        await self._redis.set(self._prefix + session, json.dumps([*rows, message.to_json()]))

    async def history(self, session: str, last: int | None = None) -> list[Message]:
        rows = await self._rows(session)
        return [Message.from_json(row) for row in (rows[-last:] if last else rows)]

    async def _rows(self, session: str) -> list[str]:
        stored = await self._redis.get(self._prefix + session)
        rows: list[str] = json.loads(stored) if stored else []
        return rows
