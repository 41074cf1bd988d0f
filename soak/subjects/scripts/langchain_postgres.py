# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain-postgres==0.0.19", "psycopg[binary,pool]==3.3.8"]
#
# [tool.soak]
# library = "langchain-postgres"
# title = "langchain-postgres PostgresChatMessageHistory"
# needs = ["postgres"]
# promises = "Messages of a session in the order they were added."
# ///
"""langchain-postgres: `PostgresChatMessageHistory`. Its session ids are UUIDs, each made of a session's name here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.messages import AIMessage, HumanMessage
from langchain_postgres import PostgresChatMessageHistory
from psycopg_pool import ConnectionPool
from soak_subject import ChatTurn, Surroundings, serve

TABLE = "chat_history"
ROLES = {"human": "user", "ai": "assistant"}
POOL_MAX = 16


class LangchainHistory:
    """A connection of a pool for each call; the id is the message's own."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._pool = ConnectionPool(surroundings.servers["postgres"], max_size=POOL_MAX)
        try:
            with self._pool.connection() as connection:
                PostgresChatMessageHistory.create_tables(connection, TABLE)
        except Exception as error:  # noqa: BLE001  two processes may make the same table at the same moment
            print(f"tables: {error}")  # noqa: T201  for the log

    @contextmanager
    def _session(self, name: str) -> Iterator[PostgresChatMessageHistory]:
        with self._pool.connection() as connection:
            session = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
            yield PostgresChatMessageHistory(TABLE, session, sync_connection=connection)

    def append(self, session: str, message: ChatTurn) -> None:
        kind = HumanMessage if message.role == "user" else AIMessage
        with self._session(session) as history:
            history.add_messages([kind(content=message.content, id=message.id)])

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        with self._session(session) as history:
            said = history.get_messages()
        return [
            ChatTurn(one.id, ROLES.get(one.type, one.type), one.content)
            for one in (said if last is None else said[-last:])
        ]

    def forget(self, session: str) -> None:
        with self._session(session) as history:
            history.clear()


if __name__ == "__main__":
    serve(LangchainHistory)
