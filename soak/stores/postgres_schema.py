"""Makes the store's own schema and brings it up to date; any number of processes may do so at once."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, ClassVar

from soak.errors import UsageError
from soak.stores import postgres_queries as queries
from soak.stores.postgres_pool import PostgresPool

LOCK_CLASS = 0x736F616B << 32  # "soak": keeps us apart from other users of advisory locks
_REPLAY_POLL_SECONDS = 0.02


class Schema:
    """A schema by its name, and the statements as they read in it."""

    migrations: ClassVar[tuple[str, ...]] = queries.MIGRATIONS

    def __init__(self, name: str) -> None:
        self.name = name
        self.quoted = '"' + name.replace('"', '""') + '"'
        self._lock = LOCK_CLASS | zlib.crc32(name.encode())

    def sql(self, query: str) -> str:
        return query.strip().replace("{schema}", self.quoted)

    async def migrate(self, pool: PostgresPool) -> None:
        """Apply what is missing, under a lock; raises `UsageError` when the schema is not ours or newer than us."""
        async with pool.transaction() as connection:
            await connection.execute(queries.TAKE_MIGRATION_LOCK, self._lock)
            problem = await self._problem(connection)
            if problem is None:
                await self._apply_missing(connection)
        if problem is not None:
            raise UsageError(problem)

    async def check_current(self, pool: PostgresPool) -> None:
        """Raise `UsageError` where something is missing: for accounts that may only read."""
        if not await self._is_current(pool):
            raise UsageError(f"schema {self.quoted} is not there yet, and this account may only read")

    async def drop(self, pool: PostgresPool) -> None:
        async with pool.transaction() as connection:
            await connection.execute(queries.TAKE_MIGRATION_LOCK, self._lock)
            await connection.execute(self.sql(queries.DROP_SCHEMA))

    async def wait_until_replayed(self, replica: PostgresPool, timeout_seconds: float) -> bool:
        """Wait for a replica to have the schema; false when it has not in time."""
        loop = asyncio.get_running_loop()
        deadline_seconds = loop.time() + timeout_seconds
        while loop.time() < deadline_seconds:
            if await self._is_current(replica):
                return True
            await asyncio.sleep(_REPLAY_POLL_SECONDS)
        return False

    async def _is_current(self, pool: PostgresPool) -> bool:
        found = await pool.fetch(queries.HAS_VERSION_TABLE, f"{self.quoted}.soak_migration")
        if not found[0][0]:
            return False
        version = await pool.fetch(self.sql(queries.READ_VERSION))
        return bool(version[0][0] >= len(self.migrations))

    async def _problem(self, connection: Any) -> str | None:
        foreign = await connection.fetchval(queries.FIND_FOREIGN_TABLE, self.name)
        if foreign is not None:
            return f"schema {self.quoted} holds a table of somebody else ({foreign}); choose another stores.namespace"
        await connection.execute(self.sql(queries.CREATE_SCHEMA))
        version = await connection.fetchval(self.sql(queries.READ_VERSION))
        if version > len(self.migrations):
            return f"schema {self.quoted} was made by a newer soak; choose another stores.namespace"
        return None

    async def _apply_missing(self, connection: Any) -> None:
        version = await connection.fetchval(self.sql(queries.READ_VERSION))
        for number, migration in enumerate(self.migrations[version:], start=version + 1):
            await connection.execute(self.sql(migration))
            await connection.execute(self.sql(queries.RECORD_VERSION), number)
