"""The nearest words, whoever said them."""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.vector_memory import VectorMemory
from soak.stores import Stored
from soak.stores.embedding import embed


class SearchAcrossTenants(VectorMemory):
    """Searches everybody's messages: the filter was on the reads, and nobody thought of the search."""

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:  # noqa: ARG002  that is the flaw
        rows = await self.pool.fetch(
            f"SELECT body FROM {self.index} ORDER BY embedding <-> $1::real[]::vector LIMIT $2",  # noqa: S608
            embed(text),
            limit,
        )
        return decode_history([row["body"] for row in rows])


FLAW = Flaw(
    name="search_across_tenants",
    incident="the search has no filter by session: the nearest words are somebody else's",
    code="ORDER BY embedding <-> $1 LIMIT 10, without the WHERE that every other query has.",
    mocks="There is one user in the tests, and what is found is theirs.",
    user="Asked about their own order, and was told the address of a stranger.",
    kinds=frozenset({Kind.LEAKED}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(SearchAcrossTenants, VectorMemory),
    load=Load(search_share=0.3),
)
