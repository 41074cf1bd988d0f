"""A conversation memory on PostgreSQL, written right: the ground the flaws stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import asyncpg

from soak.checker.message import decode_history
from soak.servers.kinds import POSTGRES
from soak.stores import Message, StoreContext, Stored


class PostgresMemory:
    """One row per message. Its id is taken under a lock of the session, so ids become visible in their own order."""

    needs: ClassVar[tuple[str, ...]] = (POSTGRES.name,)
    columns: ClassVar[str] = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session text, body bytea"

    def __init__(self, pool: Any, table: str) -> None:
        self.pool = pool
        self.table = table

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        pool = await connect(context, POSTGRES.name)
        table = f"{context.namespace}_{cls.__name__}".lower()
        await pool.execute(f"CREATE TABLE IF NOT EXISTS {table} ({cls.columns})")
        await pool.execute(f"CREATE INDEX IF NOT EXISTS {table}_session ON {table} (session)")
        return cls(pool, table)

    async def append(self, session: str, message: Message) -> None:
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", session)
            await connection.execute(
                f"INSERT INTO {self.table} (session, body) VALUES ($1, $2)",  # noqa: S608  a name of our own
                session,
                message.to_bytes(),
            )

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self.pool.fetch(
            f"SELECT body FROM {self.table} WHERE session = $1 ORDER BY id DESC LIMIT $2",  # noqa: S608
            session,
            last,
        )
        return decode_history([row["body"] for row in reversed(rows)])

    async def forget(self, session: str) -> None:
        await self.pool.execute(f"DELETE FROM {self.table} WHERE session = $1", session)  # noqa: S608

    async def close(self) -> None:
        await self.pool.close()


async def connect(context: StoreContext, kind: str) -> Any:
    return await asyncpg.create_pool(
        context.servers[kind], min_size=1, max_size=context.connections_max, command_timeout=context.timeout_seconds
    )
