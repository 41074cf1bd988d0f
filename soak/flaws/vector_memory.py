"""A correct conversation memory with search, on PostgreSQL with pgvector; the flaws of search derive from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from soak.checker.message import decode_history
from soak.flaws.postgres_memory import PostgresMemory
from soak.stores import Message, StoreContext, Stored
from soak.stores.embedding import DIMENSIONS, embed

_EXTENSION_LOCK = 7_000_001


class VectorMemory(PostgresMemory):
    """One table for the messages and one for their vectors, as if a server of its own kept the vectors.

    An append goes into both or into none, and so does a forget.
    """

    index_columns: ClassVar[str] = f"session text, body bytea, embedding vector({DIMENSIONS})"

    def __init__(self, pool: Any, table: str) -> None:
        super().__init__(pool, table)
        self.index = f"{table}_vectors"

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        store = await super().open(context)
        async with store.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _EXTENSION_LOCK)
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            await connection.execute(f"CREATE TABLE IF NOT EXISTS {store.index} ({cls.index_columns})")
            await connection.execute(f"CREATE INDEX IF NOT EXISTS {store.index}_session ON {store.index} (session)")
        return store

    async def append(self, session: str, message: Message) -> None:
        async with self.pool.acquire() as connection, connection.transaction():
            await self._lock(connection, session)
            await self.add_row(connection, session, message)
            await self.add_vector(connection, session, message)

    async def _lock(self, connection: Any, session: str) -> None:
        """Let one transaction after the other write to a session."""
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", session)

    async def add_row(self, connection: Any, session: str, message: Message) -> None:
        query = f"INSERT INTO {self.table} (session, body) VALUES ($1, $2)"  # noqa: S608  a name of our own
        await connection.execute(query, session, message.to_bytes())

    async def add_vector(self, connection: Any, session: str, message: Message) -> None:
        query = f"INSERT INTO {self.index} VALUES ($1, $2, $3::real[]::vector)"  # noqa: S608  a name of our own
        await connection.execute(query, session, message.to_bytes(), embed(message.content))

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        rows = await self.pool.fetch(
            f"SELECT body FROM {self.index} WHERE session = $1 "  # noqa: S608  a name of our own
            "ORDER BY embedding <-> $2::real[]::vector LIMIT $3",
            session,
            embed(text),
            limit,
        )
        return decode_history([row["body"] for row in rows])

    async def forget(self, session: str) -> None:
        async with self.pool.acquire() as connection, connection.transaction():
            # Each statement has a snapshot of its own: an append that ends between the two would lose its vector.
            await self._lock(connection, session)
            await connection.execute(f"DELETE FROM {self.table} WHERE session = $1", session)  # noqa: S608
            await connection.execute(f"DELETE FROM {self.index} WHERE session = $1", session)  # noqa: S608
