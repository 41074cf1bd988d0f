# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents[sqlalchemy]==0.24.0", "sqlalchemy[asyncio]==2.1.8", "asyncpg==0.32.0"]
#
# [tool.soak]
# library = "openai-agents"
# title = "openai-agents SQLAlchemySession on PostgreSQL"
# needs = ["postgres"]
# promises = "Conversation history in the order it was added, shared by all processes."
#
# [tool.soak.releases."0.3.3"]
# dependencies = ["openai-agents[sqlalchemy]==0.3.3", "sqlalchemy[asyncio]==2.0.43", "asyncpg==0.30.0"]
# known = { growing-prefix = ["non_monotonic", "reordered"] }
# ///
"""openai-agents: `SQLAlchemySession` with asyncpg, one engine for each process."""

from __future__ import annotations

from typing import Any

from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
from soak_subject import ChatTurn, Surroundings, serve
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


class SqlalchemySessions:
    """Items of the Responses API; the id is a field of the item."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    def _session(self, name: str) -> SQLAlchemySession:
        return SQLAlchemySession(session_id=name, engine=self._engine)

    async def append(self, session: str, message: ChatTurn) -> None:
        item: Any = {"id": message.id, "role": message.role, "content": message.content}
        await self._session(session).add_items([item])

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        items: list[Any] = await self._session(session).get_items(limit=last)
        return [ChatTurn(item.get("id"), item.get("role"), item.get("content")) for item in items]

    async def forget(self, session: str) -> None:
        await self._session(session).clear_session()


async def open_sessions(surroundings: Surroundings) -> SqlalchemySessions:
    """Make the tables once, as a deployment does before it serves."""
    engine = create_async_engine(surroundings.postgres_by("asyncpg"))
    for _ in range(2):  # two processes may create the same table at the same moment; one of them gets an error
        try:
            await SQLAlchemySession(session_id="first", engine=engine, create_tables=True).get_items()
            break
        except Exception as error:  # noqa: BLE001  the second time it is there
            print(f"tables: {error}")  # noqa: T201  for the log
    return SqlalchemySessions(engine)


if __name__ == "__main__":
    serve(open_sessions)
