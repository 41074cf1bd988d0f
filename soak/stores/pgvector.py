"""Conversations in PostgreSQL with pgvector: one row per message with the vector of its words, to be searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import asyncpg
import msgspec

from soak.checker.contract import Contract, Order
from soak.checker.message import Message, Stored, decode_history
from soak.errors import UsageError
from soak.servers.kinds import POSTGRES
from soak.stores import pgvector_queries as queries
from soak.stores.embedding import embed
from soak.stores.postgres import PostgresStore, open_pool
from soak.stores.postgres_pool import PostgresPool, RolledBackError, unreachable
from soak.stores.postgres_queries import TAKE_MIGRATION_LOCK
from soak.stores.postgres_schema import LOCK_CLASS, Schema
from soak.stores.protocol import StoreContext, session_bytes

_EXTENSION_LOCK = LOCK_CLASS | 0xFFFF_FFFF
"""One for all schemas: the extension belongs to the database."""


class PgvectorSchema(Schema):
    """The store's own schema, and the one that the extension is in."""

    migrations: ClassVar[tuple[str, ...]] = queries.MIGRATIONS

    def __init__(self, name: str, vectors: str) -> None:
        super().__init__(name)
        self._vectors = '"' + vectors.replace('"', '""') + '"'

    def sql(self, query: str) -> str:
        return super().sql(query).replace("{vectors}", self._vectors)


class PgvectorStore(PostgresStore):
    """A table with a vector for each message. It promises no order, and finds by exact distance within a session."""

    contract: ClassVar[Contract] = msgspec.structs.replace(PostgresStore.contract, order=Order.NONE)
    description: ClassVar[str] = "a PostgreSQL table with a vector per message (pgvector), searched by exact distance"
    schema_suffix: ClassVar[str] = "-pgvector"
    end_queries: ClassVar[tuple[str, str]] = (queries.HISTORY_LAST, queries.HISTORIES_LAST)

    def __init__(self, pool: PostgresPool, schema: Schema) -> None:
        super().__init__(pool, schema)
        self._append = schema.sql(queries.APPEND)
        self._history = schema.sql(queries.HISTORY)
        self._search = schema.sql(queries.SEARCH)
        self._forget = schema.sql(queries.FORGET)

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        pool = await open_pool(context, POSTGRES.name)
        try:
            vectors = await _extension_schema(pool)
        except UsageError:
            await pool.close()
            raise
        except Exception as error:
            await pool.close()
            raise unreachable(pool.address, error) from error
        schema = PgvectorSchema(context.namespace + cls.schema_suffix, vectors)
        await cls._migrate(context, pool, schema)
        return cls(pool, schema)

    def _row(self, session: str, message: Message) -> tuple[object, ...]:
        return *super()._row(session, message), embed(message.content)

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        """Return at most so many messages of the session, those whose words are nearest to the text first."""
        if limit <= 0:
            return []
        name = session_bytes(session)
        rows = await self._pool.fetch(self._search, name, embed(text), limit)
        return decode_history([row[0] for row in rows])

    async def forget(self, session: str) -> None:
        await self._pool.execute(self._forget, session_bytes(session))


async def _extension_schema(pool: PostgresPool) -> str:
    """Return the schema that pgvector is in, and put it into the database where it is not; says what is missing."""
    ((schema, is_available),) = await pool.fetch(queries.FIND_EXTENSION)
    if schema is not None:
        return str(schema)
    if not is_available:
        raise UsageError(
            f"the PostgreSQL server at {pool.address} has no pgvector; install it there (Debian and Ubuntu call it "
            "postgresql-NN-pgvector, NN is the server's version), or choose another store"
        )
    try:
        async with pool.transaction() as connection:
            # Any number of processes may do this at once, and only the first would be let through.
            await connection.execute(TAKE_MIGRATION_LOCK, _EXTENSION_LOCK)
            await connection.execute(queries.MAKE_EXTENSION)
    except RolledBackError as error:
        if isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
            raise UsageError(
                f"the user in the address of {pool.address} may not install pgvector; "
                "let a superuser run 'CREATE EXTENSION vector' in that database"
            ) from error
        raise
    ((schema, _),) = await pool.fetch(queries.FIND_EXTENSION)
    return str(schema)
