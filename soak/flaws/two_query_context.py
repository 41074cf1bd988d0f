"""Pages of a book that is still being written."""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.checker.message import decode_history
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.postgres_memory import PostgresMemory
from soak.stores import Stored

PAGE = 5


class TwoQueryContext(PostgresMemory):
    """Assembles the context page by page, newest first. Each query sees what is committed when it begins."""

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows: list[bytes] = []
        while last is None or len(rows) < last:
            size = PAGE if last is None else min(PAGE, last - len(rows))
            page = await self.pool.fetch(
                f"SELECT body FROM {self.table} WHERE session = $1 ORDER BY id DESC OFFSET $2 LIMIT $3",  # noqa: S608
                session,
                len(rows),
                size,
            )
            rows += [row["body"] for row in page]
            if len(page) < size:
                break
        return decode_history(rows[::-1])


FLAW = Flaw(
    name="two_query_context",
    incident="context assembled by two queries under READ COMMITTED (or OFFSET pages) while writers go on",
    code="LIMIT 5 OFFSET 0, then LIMIT 5 OFFSET 5. A message that arrives in between moves every row one further.",
    mocks="Nobody writes while a test reads.",
    user="The assistant repeated itself, for it had been shown the same line twice.",
    kinds=frozenset({Kind.WINDOW, Kind.DUPLICATED}),
    causes=frozenset({Cause.CONCURRENT_OVERWRITE, Cause.UNKNOWN}),
    setups=same_server(TwoQueryContext, PostgresMemory),
    load=Load(users=12, shared_share=1.0, think_seconds=0.02),
)
