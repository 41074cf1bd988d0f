# /// script
# requires-python = ">=3.11"
# dependencies = ["agno==3.1.10", "redis==8.1.0"]
#
# [tool.soak]
# library = "agno"
# title = "agno Agent with RedisDb"
# needs = ["redis"]
# id-in-content = true
# has-ttl = true
# promises = "The runs of a session are stored, and its chat history is what they said."
#
# [tool.soak.releases."2.6.4"]
# dependencies = ["agno==2.6.4", "redis==6.4.0"]
# known = { concurrent-writers = ["lost", "rolled_back"], growing-prefix = ["lost", "rolled_back"] }
# ///
"""agno: an `Agent` with a `RedisDb` and a model that answers at once; a message is what one run is asked."""

from __future__ import annotations

from agno.agent import Agent
from agno.db.redis import RedisDb
from soak_agno import AtOnce
from soak_subject import Message, Surroundings, serve, with_id, without_id


class Runs:
    """A run for each message. Its answer is not part of the conversation that is looked at."""

    def __init__(self, surroundings: Surroundings) -> None:
        db = RedisDb(db_url=surroundings.servers["redis"], expire=surroundings.ttl_seconds)
        self._agent = Agent(model=AtOnce(id="at-once"), db=db, telemetry=False)

    def append(self, session: str, message: Message) -> None:
        answer = self._agent.run(with_id(message), session_id=session)
        if str(getattr(answer.status, "value", answer.status)).lower() == "error":
            raise RuntimeError(f"the run ended with an error: {answer.content}")

    def history(self, session: str, last: int | None) -> list[Message]:
        known = self._agent.get_session(session_id=session)
        if known is None:
            return []  # so the library says that it knows of no such session
        said = [one for one in known.get_chat_history() if one.role == "user"]
        return [without_id(one.content) for one in (said if last is None else said[-last:])]

    def forget(self, session: str) -> None:
        self._agent.delete_session(session)


if __name__ == "__main__":
    serve(Runs)
