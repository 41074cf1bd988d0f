"""Whole seconds, and many messages in each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.postgres_memory import PostgresMemory
from soak.stores import Message, Stored


class SameTimestampTies(PostgresMemory):
    """A table ordered by created_at, which the application stamps in whole seconds."""

    columns = "created_at timestamptz(0), session text, body bytea"

    async def append(self, session: str, message: Message) -> None:
        await self.pool.execute(
            f"INSERT INTO {self.table} (created_at, session, body) VALUES ($1, $2, $3)",  # noqa: S608
            datetime.now(UTC).replace(microsecond=0),
            session,
            message.to_bytes(),
        )

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self.pool.fetch(
            f"SELECT body FROM {self.table} WHERE session = $1 ORDER BY created_at DESC LIMIT $2",  # noqa: S608
            session,
            last,
        )
        return decode_history([row["body"] for row in reversed(rows)])


FLAW = Flaw(
    name="same_timestamp_ties",
    incident="equal timestamps, no tiebreaker, read order differs from read to read",
    code="ORDER BY created_at DESC LIMIT n, reversed. created_at has whole seconds, and nothing breaks the tie.",
    mocks="Three messages come back in the order in which they were put in: by luck, as in any test of three.",
    user="The same conversation read differently on every reload.",
    kinds=frozenset({Kind.REORDERED, Kind.NON_MONOTONIC}),
    causes=frozenset({Cause.CLIENT_CLOCK}),
    setups=same_server(SameTimestampTies, PostgresMemory),
    load=Load(users=8),
)
