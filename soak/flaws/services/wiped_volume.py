# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "everything right, in a folder that nobody has promised to keep"
# version = "1"
# processes = 1
# keeps-files = true
# ///
"""Nothing is wrong with the service; what is wrong is where its folder is."""

from __future__ import annotations

from soak_memories import SqliteRows
from soak_subject import serve


class OnEphemeralStorage(SqliteRows):
    """Every commit is on the disk, for as long as there is one."""


if __name__ == "__main__":
    serve(OnEphemeralStorage)
