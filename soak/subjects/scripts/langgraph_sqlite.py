# /// script
# requires-python = ">=3.11"
# dependencies = ["langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2"]
#
# [tool.soak]
# library = "langgraph-checkpoint-sqlite"
# title = "langgraph MessagesState with SqliteSaver"
# keeps-files = true
# promises = "Each invocation of a thread goes on from the thread's latest checkpoint."
#
# [tool.soak.by-design.concurrent-writers]
# kinds = ["lost", "rolled_back", "reordered", "non_monotonic", "stale"]
# reason = "a checkpoint is the whole state and the last one wins; one invocation at a time is up to the caller"
#
# [tool.soak.by-design.growing-prefix]
# kinds = ["lost", "rolled_back", "reordered", "non_monotonic", "stale"]
# reason = "a checkpoint is the whole state and the last one wins; one invocation at a time is up to the caller"
# ///
"""langgraph: a graph with messages as its state and a `SqliteSaver` on one file, which all processes share."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver
from soak_langgraph import Threads
from soak_subject import Surroundings, serve


def open_threads(surroundings: Surroundings) -> Threads:
    """Connect as its documentation does: one connection for all threads of the process."""
    path = Path(surroundings.folder, "checkpoints.sqlite")
    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    saver.setup()
    return Threads(saver)


if __name__ == "__main__":
    serve(open_threads)
