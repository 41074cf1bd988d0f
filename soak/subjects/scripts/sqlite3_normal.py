# /// script
# dependencies = []
#
# [tool.soak]
# library = "sqlite3"
# version = "3"
# title = "a table of one's own in SQLite: WAL, synchronous=NORMAL"
# keeps-files = true
# promises = "In WAL mode a transaction that was committed may be rolled back by a power cut, and by nothing else."
# ///
"""SQLite by itself: a file with a write-ahead log and `synchronous=NORMAL`, as most advice for web services has it."""

from __future__ import annotations

from soak_memories import SqliteRows
from soak_subject import serve


class NormallySynced(SqliteRows):
    """One file, which all processes share."""

    synchronous = "normal"


if __name__ == "__main__":
    serve(NormallySynced)
