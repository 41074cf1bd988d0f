"""Conversations written to a PostgreSQL primary and read from its streaming replica, which lags behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from soak.checker.contract import Contract, Reads
from soak.checker.message import Stored
from soak.errors import ServerUnreachableError
from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA
from soak.stores.postgres import PostgresStore, open_pool
from soak.stores.postgres_address import unreachable
from soak.stores.postgres_pool import PostgresPool
from soak.stores.postgres_schema import Schema
from soak.stores.protocol import StoreContext

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
        return await self._read(self._replica, session, last)

    async def primary_history(self, session: str) -> Sequence[Stored]:
        """Read the whole session where the writes go: never stale."""
        return await self._read(self._pool, session, None)

    async def close(self) -> None:
        await self._replica.close()
        await super().close()
