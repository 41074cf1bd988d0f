# /// script
# dependencies = []
#
# [tool.soak]
# library = "sqlite3"
# title = "a memory in a SQLite file that leaves it to the kernel when to write"
# version = "1"
# processes = 1
# keeps-files = true
# ///
"""The same as the correct one, made faster by one line: what is committed outlives the process, and no power cut."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from filing import Filing
from soak_subject import serve


class Unsynced(Filing):
    """Syncs nothing."""

    synchronous = "off"


if __name__ == "__main__":
    serve(Unsynced)
