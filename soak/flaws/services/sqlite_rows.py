"""A memory in a SQLite file, as a small service has it, and has it right."""

from __future__ import annotations

import sqlite3
import threading

from soak_subject import Message, Surroundings

BUSY_SECONDS_MAX = 10.0


class SqliteRows:
    """A row for each message; what is committed outlives the process."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._path = f"{surroundings.folder}/{type(self).__name__}.db"
        self._local = threading.local()
        with self.database as database:
            database.execute("pragma journal_mode = wal")
            database.execute("create table if not exists said (number integer primary key, session, id, role, content)")
            database.execute("create index if not exists said_in on said (session, number)")

    @property
    def database(self) -> sqlite3.Connection:
        """Each thread has a connection of its own."""
        if not hasattr(self._local, "database"):
            self._local.database = sqlite3.connect(self._path, timeout=BUSY_SECONDS_MAX)
            self._local.database.execute("pragma synchronous = normal")
        found: sqlite3.Connection = self._local.database
        return found

    def append(self, session: str, message: Message) -> None:
        with self.database as database:
            row = (session, message.id, message.role, message.content)
            database.execute("insert into said (session, id, role, content) values (?, ?, ?, ?)", row)

    def history(self, session: str, last: int | None) -> list[Message]:
        rows = self.database.execute(
            "select id, role, content from said where session = ? order by number desc limit ?", [session, last or -1]
        )
        return [Message(*row) for row in rows][::-1]

    def forget(self, session: str) -> None:
        with self.database as database:
            database.execute("delete from said where session = ?", [session])
