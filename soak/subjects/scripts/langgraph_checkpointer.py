# /// script
# requires-python = ">=3.11"
# dependencies = ["langgraph==1.2.20"]
#
# [tool.soak]
# library = "langgraph"
# title = "langgraph MessagesState with any checkpointer"
# takes-factory = true
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
"""langgraph: a graph with messages as its state and the checkpointer that `NAME=module:factory` names.

The factory is called with the address of the server, or with the path of a file. A checkpointer's class will do: its
`from_conn_string` is called. What it returns is the checkpointer, or a context manager around it, sync or async.
"""

from __future__ import annotations

from typing import Any

from soak_langgraph import AsyncThreads, Threads
from soak_subject import Surroundings, serve

_ENTERED: list[Any] = []
"""Context managers that must live as long as the process: one that nobody holds is left, and closes what it opened."""


async def open_threads(surroundings: Surroundings) -> Threads | AsyncThreads:
    """Open the checkpointer on the event loop, and make what it needs before it serves."""
    factory = surroundings.found_factory()
    made: Any = getattr(factory, "from_conn_string", factory)(surroundings.address)
    is_async = hasattr(made, "__aenter__") or hasattr(made, "__await__")
    if hasattr(made, "__await__"):
        made = await made
    _ENTERED.append(made)
    if hasattr(made, "__aenter__"):
        made = await made.__aenter__()
    elif hasattr(made, "__enter__"):
        made = made.__enter__()
    if hasattr(made, "setup"):
        told = made.setup()
        if hasattr(told, "__await__"):
            is_async = True
            await told
    return AsyncThreads(made) if is_async else Threads(made)


if __name__ == "__main__":
    serve(open_threads)
