# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "SQLite with a write-ahead log that is synced now and then"
# version = "1"
# processes = 1
# keeps-files = true
# ///
"""Keeps messages in a SQLite file, as most advice for web services has it: WAL, and `synchronous=NORMAL`."""

from __future__ import annotations

from soak_memories import SqliteRows
from soak_subject import serve


class SqliteNormal(SqliteRows):
    """A commit is in the log; the log is synced when it is folded into the file."""

    synchronous = "normal"


class SqliteFull(SqliteRows):
    """Each commit syncs the log."""

    synchronous = "full"


if __name__ == "__main__":
    serve(SqliteNormal, twin=SqliteFull)
