# /// script
# requires-python = ">=3.11"
# dependencies = ["llama-index-storage-chat-store-redis==0.8.0", "llama-index-core==0.14.25", "redis==8.1.0"]
#
# [tool.soak]
# library = "llama-index-storage-chat-store-redis"
# title = "llama-index RedisChatStore"
# needs = ["redis"]
# has-ttl = true
# promises = "Chat messages of a key in the order they were added; a ttl that each new message renews."
# ///
"""llama-index: `RedisChatStore`, by its async methods; the id is among the message's additional arguments."""

from __future__ import annotations

from llama_index.core.llms import ChatMessage
from llama_index.storage.chat_store.redis import RedisChatStore
from soak_subject import ChatTurn, Surroundings, serve


class Store:
    """One key for each session."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._store = RedisChatStore(redis_url=surroundings.servers["redis"], ttl=surroundings.ttl_seconds)

    async def append(self, session: str, message: ChatTurn) -> None:
        said = ChatMessage(role=message.role, content=message.content, additional_kwargs={"id": message.id})
        await self._store.async_add_message(session, said)

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        said = await self._store.aget_messages(session)
        return [
            ChatTurn(one.additional_kwargs.get("id"), one.role.value, one.content)
            for one in (said if last is None else said[-last:])
        ]

    async def forget(self, session: str) -> None:
        await self._store.adelete_messages(session)


if __name__ == "__main__":
    serve(Store)
