"""Shown first, checked afterwards."""

from __future__ import annotations

import asyncio

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.postgres_memory import PostgresMemory
from soak.stores import Message

CHECK_SECONDS = 1.0
LENGTH_MAX = 400


class WriteRefusedError(Exception):
    """The check said no."""


class DirtyRead(PostgresMemory):
    """Commits the row, lets a slow check look at it, and takes it back if the check says no."""

    async def append(self, session: str, message: Message) -> None:
        row = await self.insert(session, message)
        if len(message.content) > LENGTH_MAX:
            await asyncio.sleep(CHECK_SECONDS)
            await self.pool.execute(f"DELETE FROM {self.table} WHERE id = $1", row)  # noqa: S608
            raise WriteRefusedError("content refused")

    async def insert(self, session: str, message: Message) -> int:
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", session)
            row: int = await connection.fetchval(
                f"INSERT INTO {self.table} (session, body) VALUES ($1, $2) RETURNING id",  # noqa: S608
                session,
                message.to_bytes(),
            )
            return row


class CheckedFirst(DirtyRead):
    """The check comes before the row."""

    async def append(self, session: str, message: Message) -> None:
        if len(message.content) > LENGTH_MAX:
            await asyncio.sleep(CHECK_SECONDS)
            raise WriteRefusedError("content refused")
        await self.insert(session, message)


FLAW = Flaw(
    name="dirty_read",
    incident="a message is committed before it is checked; everybody reads it for a second, then it is taken back",
    code="INSERT, COMMIT, await moderation(), DELETE. The transaction was split because it held a lock for too long.",
    mocks="The test of a refused message looks after the refusal, and it is gone.",
    user="The assistant quoted a sentence that, a second later, nobody had ever said.",
    kinds=frozenset({Kind.ROLLED_BACK, Kind.PHANTOM}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(DirtyRead, CheckedFirst),
    load=Load(users=24),
)
