"""Conversations in PostgreSQL: one row per message, ordered by a position that the database assigns."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import ClassVar, Self

from soak.checker.contract import Contract, Reads
from soak.checker.message import Message, Stored, decode_history
from soak.errors import ServerUnreachableError, SoakError
from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA
from soak.stores import postgres_queries as queries
from soak.stores.postgres_ends import SessionEnds
from soak.stores.postgres_pool import PostgresPool, address_of, unreachable
from soak.stores.postgres_schema import Schema
from soak.stores.protocol import ReadsEnds, StoreContext, session_bytes


class PostgresStore(ReadsEnds):
    """A table in a schema of its own, named like the namespace. Appending is idempotent by the message's name."""

    needs: ClassVar[tuple[str, ...]] = (POSTGRES.name,)
    contract: ClassVar[Contract] = Contract()
    description: ClassVar[str] = "a PostgreSQL table ordered by a database-assigned position, idempotent by name"
    schema_suffix: ClassVar[str] = ""
    """Keeps stores of one namespace apart; no namespace can end in it."""
    end_queries: ClassVar[tuple[str, str]] = (queries.HISTORY_LAST, queries.HISTORIES_LAST)
    """How the end of one session is read, and the ends of several."""

    def __init__(self, pool: PostgresPool, schema: Schema) -> None:
        self._pool = pool
        self._schema = schema
        self._append = schema.sql(queries.APPEND)
        self._history = schema.sql(queries.HISTORY)
        self._ends = self._ends_through(pool)
        if type(self) is PostgresStore:
            self.ends = functools.partial(_read_ends, self._ends)

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        pool, schema = await cls._open_primary(context)
        return cls(pool, schema)

    @classmethod
    async def _open_primary(cls, context: StoreContext) -> tuple[PostgresPool, Schema]:
        schema = Schema(context.namespace + cls.schema_suffix)
        pool = await open_pool(context, POSTGRES.name)
        await cls._migrate(context, pool, schema)
        return pool, schema

    @staticmethod
    async def _migrate(context: StoreContext, pool: PostgresPool, schema: Schema) -> None:
        """Bring the schema up to date, or close the connections and say why that cannot be."""
        try:
            if context.is_read_only:
                await schema.check_current(pool)
            else:
                await schema.migrate(pool)
        except SoakError:
            await pool.close()
            raise
        except Exception as error:
            await pool.close()
            raise unreachable(pool.address, error) from error

    def _ends_through(self, pool: PostgresPool) -> SessionEnds:
        return SessionEnds(pool, *map(self._schema.sql, self.end_queries))

    async def append(self, session: str, message: Message) -> None:
        await self._pool.execute(self._append, *self._row(session, message))

    def _row(self, session: str, message: Message) -> tuple[object, ...]:
        """Return what is written of a message."""
        name = session_bytes(session)
        return name, message.run, message.writer, message.seq, message.to_bytes()

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await self._read(self._pool, self._ends, session, last)

    async def forget(self, session: str) -> None:
        name = session_bytes(session)
        async with self._pool.transaction() as connection:
            await connection.execute(self._schema.sql(queries.FORGET_CONVERSATION), name)
            await connection.execute(self._schema.sql(queries.FORGET_MESSAGES), name)

    async def close(self) -> None:
        await self._pool.close()

    async def clean_up(self) -> None:
        """Drop the store's own schema; every other one is left alone."""
        await self._schema.drop(self._pool)

    async def _read(self, pool: PostgresPool, ends: SessionEnds, session: str, last: int | None) -> Sequence[Stored]:
        name = session_bytes(session)
        if last is None:
            return decode_history([row[0] for row in await pool.fetch(self._history, name)])
        return decode_history(await ends.read(name, last)) if last > 0 else []


async def _read_ends(ends: SessionEnds, asked: Sequence[tuple[str, int]]) -> Sequence[Sequence[Stored] | BaseException]:
    bodies = [ends.read(session_bytes(session), last) for session, last in asked]
    answers = await asyncio.gather(*bodies, return_exceptions=True)
    return [one if isinstance(one, BaseException) else decode_history(one) for one in answers]


async def open_pool(context: StoreContext, kind: str) -> PostgresPool:
    """Connect to a configured server, or say in one line why that cannot be."""
    url, address = address_of(context, kind)
    pool = PostgresPool(
        url, address=address, connections_max=context.connections_max, timeout_seconds=context.timeout_seconds
    )
    try:
        await pool.connect()
    except Exception as error:
        raise unreachable(address, error) from error
    return pool


# Conversations written to a PostgreSQL primary and read from its streaming replica, which lags behind.


STALENESS_SECONDS = 5.0


class PostgresReplicaStore(PostgresStore):
    """The same tables as `postgres`, read somewhere else."""

    needs: ClassVar[tuple[str, ...]] = (POSTGRES.name, POSTGRES_REPLICA.name)
    contract: ClassVar[Contract] = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=STALENESS_SECONDS)
    description: ClassVar[str] = "writes on the PostgreSQL primary, reads on its replica"
    schema_suffix: ClassVar[str] = "-replica"

    def __init__(self, pool: PostgresPool, schema: Schema, replica: PostgresPool) -> None:
        super().__init__(pool, schema)
        self._replica = replica
        self._replica_ends = self._ends_through(replica)
        if type(self) is PostgresReplicaStore:
            self.ends = functools.partial(_read_ends, self._replica_ends)

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        pool, schema = await cls._open_primary(context)
        try:
            replica = await open_pool(context, POSTGRES_REPLICA.name)
        except BaseException:
            await pool.close()
            raise
        store = cls(pool, schema, replica)
        try:
            is_replayed = await schema.wait_until_replayed(replica, context.timeout_seconds)
        except Exception as error:
            await store.close()
            raise unreachable(replica.address, error) from error
        if not is_replayed:
            await store.close()
            raise ServerUnreachableError(
                f"the replica at {replica.address} did not get the schema from {pool.address} within "
                f"{context.timeout_seconds:g}s; check that it replicates this primary"
            )
        return store

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await self._read(self._replica, self._replica_ends, session, last)

    async def primary_history(self, session: str) -> Sequence[Stored]:
        """Read the whole session where the writes go: never stale."""
        return await self._read(self._pool, self._ends, session, None)

    async def close(self) -> None:
        await self._replica.close()
        await super().close()
