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
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from soak_subject import ChatTurn, Surroundings, serve

POOL_MAX = 16
AGAIN_SECONDS = 0.1
ROLES = {"human": "user", "ai": "assistant"}


@contextmanager
def _alone(server: str) -> Iterator[None]:
    """Let one process at a time make tables, as a deployment does: two would be in each other's way."""
    with psycopg.connect(server, autocommit=True) as connection:
        # Asked again and again, not waited for: its indices are made when no query is under way anywhere.
        while not connection.execute("select pg_try_advisory_lock(1)").fetchone()[0]:
            time.sleep(AGAIN_SECONDS)
        yield


def _listen(_state: MessagesState) -> dict[str, Any]:
    return {"messages": []}


class Threads:
    """A thread for each session. The id is the message's own."""

    def __init__(self, surroundings: Surroundings) -> None:
        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = ConnectionPool(surroundings.servers["postgres"], max_size=POOL_MAX, kwargs=settings)
        self._saver = PostgresSaver(pool)
        with _alone(surroundings.servers["postgres"]):
            self._saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("listen", _listen)
        graph.add_edge(START, "listen")
        graph.add_edge("listen", END)
        self._graph = graph.compile(checkpointer=self._saver)

    def append(self, session: str, message: ChatTurn) -> None:
        kind = HumanMessage if message.role == "user" else AIMessage
        said: Any = {"messages": [kind(content=message.content, id=message.id)]}
        self._graph.invoke(said, self._config(session))

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        said = self._graph.get_state(self._config(session)).values.get("messages", [])
        return [
            ChatTurn(one.id, ROLES.get(one.type, one.type), one.content)
            for one in (said if last is None else said[-last:])
        ]

    def forget(self, session: str) -> None:
        self._saver.delete_thread(session)

    def _config(self, session: str) -> Any:
        return {"configurable": {"thread_id": session}}


if __name__ == "__main__":
    serve(Threads)
