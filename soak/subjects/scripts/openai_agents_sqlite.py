# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents==0.24.0"]
#
# [tool.soak]
# library = "openai-agents"
# title = "openai-agents SQLiteSession"
# keeps-files = true
# promises = "Conversation history in the order it was added, kept in a file."
# ///
"""openai-agents: `SQLiteSession` on one file, which all processes share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents import SQLiteSession
from soak_subject import ChatTurn, Surroundings, serve


class SqliteSessions:
    """Items of the Responses API; the id is a field of the item. A session is opened for a turn and closed again."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._path = Path(surroundings.folder, "conversations.db")

    async def append(self, session: str, message: ChatTurn) -> None:
        item: Any = {"id": message.id, "role": message.role, "content": message.content}
        opened = SQLiteSession(session, self._path)
        try:
            await opened.add_items([item])
        finally:
            opened.close()

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        opened = SQLiteSession(session, self._path)
        try:
            items: list[Any] = await opened.get_items(limit=last)
        finally:
            opened.close()
        return [ChatTurn(item.get("id"), item.get("role"), item.get("content")) for item in items]

    async def forget(self, session: str) -> None:
        opened = SQLiteSession(session, self._path)
        try:
            await opened.clear_session()
        finally:
            opened.close()


if __name__ == "__main__":
    serve(SqliteSessions)
