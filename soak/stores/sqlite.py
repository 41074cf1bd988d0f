"""Conversations in a SQLite file that several processes share, as agent SDKs keep them by default."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

from soak.checker.contract import Contract
from soak.checker.message import Message, Stored, decode_history
from soak.checker.outcome import NotApplied
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.kinds import SQLITE
from soak.sqlite_address import SqliteAddress, parse_sqlite
from soak.stores.protocol import StoreContext, session_bytes
from soak.stores.sqlite_file import SqliteThreads, outcome_of

READERS_MAX = 4
_CREATE = """
create table if not exists {table} (
    number integer primary key autoincrement, -- given out under the write lock, so in the order of the commits
    session blob not null,
    body blob not null
)
"""
_INDEX = "create index if not exists {index} on {table} (session, number)"
_APPEND = "insert into {table} (session, body) values (?, ?)"
_HISTORY = "select body from {table} where session = ? order by number"
_HISTORY_LAST = "select body from {table} where session = ? order by number desc limit ?"
_FORGET = "delete from {table} where session = ?"
_DROP = "drop table if exists {table}"


class SqliteStore:
    """A table named like the namespace; a row for each message, each in a transaction of its own."""

    needs: ClassVar[tuple[str, ...]] = (SQLITE.name,)
    contract: ClassVar[Contract] = Contract()
    description: ClassVar[str] = "a table in a SQLite file that several processes share, with a write-ahead log"

    def __init__(self, address: SqliteAddress, context: StoreContext) -> None:
        # No namespace has a dot in it.
        self._names = {"table": f'"{context.namespace}.message"', "index": f'"{context.namespace}.message_session"'}
        # The verifier only reads, but for its canary: it is no writer that a fault could mean.
        self._writer = SqliteThreads(
            address,
            threads=1,
            timeout_seconds=context.timeout_seconds,
            reads_only=False,
            keeps_open=not context.is_verifier,
        )
        self._readers = SqliteThreads(
            address,
            threads=min(READERS_MAX, context.connections_max),
            timeout_seconds=context.timeout_seconds,
            reads_only=context.is_verifier,
        )

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        if SQLITE.name not in context.servers:
            raise UsageError(f"no SQLite file is configured; give its path in {SQLITE.setting}")
        address = parse_sqlite(context.servers[SQLITE.name])
        store = cls(address, context)
        store._writer.start()
        store._readers.start()
        try:
            await store._write(_CREATE)
            await store._write(_INDEX)
        except (NotApplied, sqlite3.Error, TimeoutError) as error:
            await store.close()
            reason = str(error) or type(error).__name__
            raise ServerUnreachableError(
                f"{address.path} cannot be used as a SQLite file ({reason}); check the path, and who else writes to it"
            ) from error
        except BaseException:
            await store.close()
            raise
        return store

    async def append(self, session: str, message: Message) -> None:
        await self._write(_APPEND, session_bytes(session), message.to_bytes())

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is None:
            rows = await self._readers.run(self._statement(_HISTORY, session_bytes(session)))
        elif last > 0:
            rows = (await self._readers.run(self._statement(_HISTORY_LAST, session_bytes(session), last)))[::-1]
        else:
            return []
        return decode_history([row[0] for row in rows])

    async def forget(self, session: str) -> None:
        await self._write(_FORGET, session_bytes(session))

    async def close(self) -> None:
        await self._writer.close()
        await self._readers.close()

    async def clean_up(self) -> None:
        """Drop the store's own table; every other one, and the file, is left alone."""
        await self._write(_DROP)

    async def _write(self, query: str, *values: object) -> None:
        try:
            await self._writer.run(self._statement(query, *values))
        except sqlite3.Error as error:
            raise outcome_of(error) from error

    def _statement(self, query: str, *values: object) -> Callable[[sqlite3.Connection], list[tuple[bytes]]]:
        sql = query.format(**self._names)

        def run(connection: sqlite3.Connection) -> list[tuple[bytes]]:
            # Outside a transaction each statement is one: it is committed when it returns.
            return connection.execute(sql, values).fetchall()

        return run
