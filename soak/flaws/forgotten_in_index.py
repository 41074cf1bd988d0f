"""Erased from the table, and still in the index."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.postgres_memory import PostgresMemory
from soak.flaws.vector_memory import VectorMemory


class ForgottenInIndex(VectorMemory):
    """Forgets what it reads, and not what it searches."""

    async def forget(self, session: str) -> None:
        await PostgresMemory.forget(self, session)


FLAW = Flaw(
    name="forgotten_in_index",
    incident="a conversation is deleted, its copy in the vector index is not, and the next search brings it back",
    code="DELETE FROM messages WHERE session = … and nothing else: the index was added a year later.",
    mocks="The test of forget() reads the history, and it is empty.",
    user="Asked to be forgotten, was told it was done, and met their own words in an answer.",
    kinds=frozenset({Kind.RESURRECTED}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(ForgottenInIndex, VectorMemory),
    load=Load(session_messages=8, forget_share=1.0, search_share=0.3),
)
