"""Written here, read there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.postgres_memory import PostgresMemory, connect
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA
from soak.stores import StoreContext, Stored


class ReadsFromReplica(PostgresMemory):
    """Writes on the primary and reads on the replica, to take load off the primary."""

    needs: ClassVar[tuple[str, ...]] = (POSTGRES.name, POSTGRES_REPLICA.name)

    def __init__(self, pool: Any, table: str) -> None:
        super().__init__(pool, table)
        self.replica: Any = None

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        store = await super().open(context)
        store.replica = await connect(context, POSTGRES_REPLICA.name)
        async with asyncio.timeout(context.timeout_seconds * 4):
            while await store.replica.fetchval("SELECT to_regclass($1)", store.table) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return store

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self.replica.fetch(
            f"SELECT body FROM {self.table} WHERE session = $1 ORDER BY id DESC LIMIT $2",  # noqa: S608
            session,
            last,
        )
        return decode_history([row["body"] for row in reversed(rows)])

    async def close(self) -> None:
        await self.replica.close()
        await super().close()


FLAW = Flaw(
    name="replica_reads",
    incident="write on the primary, read on a lagging replica: the fresh message is invisible",
    code="Two connection strings, one for writing and one for reading. The second is a replica.",
    mocks="In a test both are the same database.",
    user="Said something, reloaded, and it was gone; a second later it was there.",
    kinds=frozenset({Kind.STALE}),
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=same_server(
        ReadsFromReplica,
        PostgresMemory,
        ScenarioFault(fault="replica_lag", target=POSTGRES_REPLICA.name, hold_seconds=1.0),
    ),
    load=Load(users=8),
)
