"""Stored, and not to be found."""

from __future__ import annotations

import contextlib
from typing import Any

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.vector_memory import VectorMemory
from soak.stores import Message

INPUT_CHARACTERS_MAX = 120


class InputTooLongError(Exception):
    """What an embedding service answers to a text that is too long for it."""


class IndexBehind(VectorMemory):
    """Stores the message first and indexes it afterwards, as well as it can."""

    async def append(self, session: str, message: Message) -> None:
        async with self.pool.acquire() as connection:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", session)
                await self.add_row(connection, session, message)
            # The message is safe; the index can be mended by tonight's job.
            with contextlib.suppress(InputTooLongError):
                await self.add_vector(connection, session, message)

    async def add_vector(self, connection: Any, session: str, message: Message) -> None:
        if len(message.content) > INPUT_CHARACTERS_MAX:
            raise InputTooLongError
        await super().add_vector(connection, session, message)


FLAW = Flaw(
    name="index_behind",
    incident="the message is stored, its vector is not: the embedding call failed and was skipped; no search finds it",
    code="INSERT INTO messages, COMMIT; try: index.add(embed(text)) except EmbeddingError: pass",
    mocks="The embedder of the tests takes any text, and the test looks into the table.",
    user="The assistant had it in the transcript, and swore that nobody had ever told it.",
    kinds=frozenset({Kind.UNFINDABLE}),
    causes=frozenset({Cause.SWALLOWED_ERROR}),
    setups=same_server(IndexBehind, VectorMemory),
    load=Load(session_messages=30, search_share=0.3),
)
