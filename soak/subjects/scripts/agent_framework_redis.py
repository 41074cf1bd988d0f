# /// script
# requires-python = ">=3.11"
# dependencies = ["agent-framework-redis==1.0.0b261022", "agent-framework-core==1.23.0", "redis==7.1.1"]
#
# [tool.soak]
# library = "agent-framework-redis"
# title = "agent-framework RedisHistoryProvider"
# needs = ["redis"]
# promises = "Messages of a session in chronological order."
#
# [tool.soak.releases."1.0.0b261002"]
# dependencies = ["agent-framework-redis==1.0.0b261002", "agent-framework-core==1.19.0", "redis==7.1.1"]
# known = { identical-turns = ["lost"] }
# ///
"""agent-framework: `RedisHistoryProvider`; the id is among the message's additional properties.

Messages of people come without a `message_id`, so none is set.
"""

from __future__ import annotations

from typing import Any

from agent_framework import Message
from agent_framework_redis import RedisHistoryProvider
from soak_subject import ChatTurn, Surroundings, serve


class AgentFrameworkHistory:
    """One list for each session."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._history = RedisHistoryProvider(redis_url=surroundings.servers["redis"], application_id="soak")

    async def append(self, session: str, message: ChatTurn) -> None:
        said = Message(role=message.role, contents=[message.content], additional_properties={"id": message.id})
        await self._history.save_messages(session, [said])

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        said: list[Any] = await self._history.get_messages(session)
        return [
            ChatTurn(one.additional_properties.get("id"), str(getattr(one.role, "value", one.role)), one.text)
            for one in (said if last is None else said[-last:])
        ]

    async def forget(self, session: str) -> None:
        await self._history.clear(session)


if __name__ == "__main__":
    serve(AgentFrameworkHistory)
