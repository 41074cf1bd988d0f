# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents[redis]==0.24.0", "redis==8.1.0"]
#
# [tool.soak]
# library = "openai-agents"
# title = "openai-agents RedisSession"
# needs = ["redis"]
# has-ttl = true
# promises = "Conversation history in the order it was added, shared by all processes; a ttl that each new item renews."
# ///
"""openai-agents: `RedisSession`, one client for each process, as its documentation shares one among sessions."""

from __future__ import annotations

from typing import Any

from agents.extensions.memory.redis_session import RedisSession
from redis.asyncio import Redis
from soak_subject import ChatTurn, Surroundings, serve


class RedisSessions:
    """Items of the Responses API; the id is a field of the item."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._redis = Redis.from_url(surroundings.servers["redis"])
        self._ttl = surroundings.ttl_seconds

    def _session(self, name: str) -> RedisSession:
        return RedisSession(session_id=name, redis_client=self._redis, ttl=self._ttl)

    async def append(self, session: str, message: ChatTurn) -> None:
        item: Any = {"id": message.id, "role": message.role, "content": message.content}
        await self._session(session).add_items([item])

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        items: list[Any] = await self._session(session).get_items(limit=last)
        return [ChatTurn(item.get("id"), item.get("role"), item.get("content")) for item in items]

    async def forget(self, session: str) -> None:
        await self._session(session).clear_session()


if __name__ == "__main__":
    serve(RedisSessions)
