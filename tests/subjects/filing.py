# /// script
# dependencies = []
#
# [tool.soak]
# library = "sqlite3"
# title = "a correct memory in a SQLite file"
# version = "1"
# keeps-files = true
# ///
"""A correct memory that needs no server: one file, that all its processes share, and every commit is synced."""

from __future__ import annotations

import sqlite3
import threading

from soak_subject import ChatTurn, Surroundings, serve

BUSY_SECONDS_MAX = 30.0


class Filing:
    """A row for each message."""

    synchronous = "full"

    def __init__(self, surroundings: Surroundings) -> None:
        self._path = f"{surroundings.folder}/memory.db"
        self._local = threading.local()
        with self._database as database:
            database.execute("create table if not exists said (number integer primary key, session, id, role, content)")

    @property
    def _database(self) -> sqlite3.Connection:
        if not hasattr(self._local, "database"):
            self._local.database = sqlite3.connect(self._path, timeout=BUSY_SECONDS_MAX)
            self._local.database.execute(f"pragma synchronous = {self.synchronous}")
        found: sqlite3.Connection = self._local.database
        return found

    def append(self, session: str, message: ChatTurn) -> None:
        with self._database as database:
            row = (session, message.id, message.role, message.content)
            database.execute("insert into said (session, id, role, content) values (?, ?, ?, ?)", row)

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        rows = self._database.execute("select id, role, content from said where session = ? order by number", [session])
        said = [ChatTurn(*row) for row in rows]
        return said if last is None else said[-last:]

    def forget(self, session: str) -> None:
        with self._database as database:
            database.execute("delete from said where session = ?", [session])


if __name__ == "__main__":
    serve(Filing)
