# /// script
# requires-python = ">=3.11"
# dependencies = ["langgraph==1.2.20", "langgraph-checkpoint-postgres==3.2.0", "psycopg[binary,pool]==3.3.8"]
#
# [tool.soak]
# library = "langgraph-checkpoint-postgres"
# title = "langgraph MessagesState with PostgresSaver"
# needs = ["postgres"]
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
"""langgraph: a graph with messages as its state and a `PostgresSaver`; a message is what one invocation adds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from soak_langgraph import Threads
from soak_subject import Surroundings, serve

POOL_MAX = 16
AGAIN_SECONDS = 0.1


@contextmanager
def _alone(server: str) -> Iterator[None]:
    """Let one process at a time make tables, as a deployment does: two would be in each other's way."""
    with psycopg.connect(server, autocommit=True) as connection:
        # Asked again and again, not waited for: its indices are made when no query is under way anywhere.
        while not connection.execute("select pg_try_advisory_lock(1)").fetchone()[0]:
            time.sleep(AGAIN_SECONDS)
        yield


def open_threads(surroundings: Surroundings) -> Threads:
    """Make the tables before it serves."""
    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = ConnectionPool(surroundings.servers["postgres"], max_size=POOL_MAX, kwargs=settings)
    saver = PostgresSaver(pool)
    with _alone(surroundings.servers["postgres"]):
        saver.setup()
    return Threads(saver)


if __name__ == "__main__":
    serve(open_threads)
