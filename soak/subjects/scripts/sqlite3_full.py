# /// script
# dependencies = []
#
# [tool.soak]
# library = "sqlite3"
# version = "3"
# title = "a table of one's own in SQLite: WAL, synchronous=FULL"
# keeps-files = true
# promises = "A transaction that was committed is durable across a power cut."
# ///
"""SQLite by itself: a file with a write-ahead log and `synchronous=FULL`, as SQLite is shipped."""

from __future__ import annotations

from soak_memories import SqliteRows
from soak_subject import serve


class FullySynced(SqliteRows):
    """One file, which all processes share."""

    synchronous = "full"


if __name__ == "__main__":
    serve(FullySynced)
