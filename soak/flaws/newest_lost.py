"""The last twenty, by a clock that is not the only one."""

from __future__ import annotations

import time
from typing import ClassVar

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, SHARED_SESSIONS, Flaw, same_server
from soak.flaws.postgres_memory import PostgresMemory
from soak.stores import Contract, Message

KEPT = 20
DRIFT_SECONDS = 2.0


class NewestLost(PostgresMemory):
    """Keeps the last twenty of a session: those with the latest time of the application."""

    contract: ClassVar[Contract] = Contract(retained_messages=KEPT)
    columns: ClassVar[str] = PostgresMemory.columns + ", created_at double precision"
    age: ClassVar[str] = "created_at"
    """What the trimming goes by."""

    async def append(self, session: str, message: Message) -> None:
        # Every fourth writer is served by a machine whose clock is a little slow.
        created_at = time.time() - (DRIFT_SECONDS if message.writer % 4 == 1 else 0.0)
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", session)
            await connection.execute(
                f"INSERT INTO {self.table} (session, body, created_at) VALUES ($1, $2, $3)",  # noqa: S608
                session,
                message.to_bytes(),
                created_at,
            )
            await connection.execute(
                f"DELETE FROM {self.table} WHERE session = $1 AND id NOT IN "  # noqa: S608
                f"(SELECT id FROM {self.table} WHERE session = $1 ORDER BY {self.age} DESC LIMIT {KEPT})",
                session,
            )


class NewestKept(NewestLost):
    """Trims by the order in which the rows were written."""

    age: ClassVar[str] = "id"


FLAW = Flaw(
    name="newest_lost",
    incident="a last-20 window is trimmed by application time: a slow clock's newest message goes, an older one stays",
    code="DELETE ... NOT IN (SELECT id ORDER BY created_at DESC LIMIT 20), with created_at from two machines.",
    mocks="One writer, one clock: the newest row is the one with the latest time.",
    user="Whoever was served by the second machine said something, and the assistant had not heard it.",
    kinds=GONE,
    causes=frozenset({Cause.CONCURRENT_OVERWRITE, Cause.SWALLOWED_ERROR, Cause.UNKNOWN}),
    setups=same_server(NewestLost, NewestKept),
    load=SHARED_SESSIONS,
)
