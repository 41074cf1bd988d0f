# /// script
# requires-python = ">=3.11"
# dependencies = ["agno==3.1.10", "sqlalchemy[asyncio]==2.1.8", "psycopg[binary]==3.3.8"]
#
# [tool.soak]
# library = "agno"
# title = "agno Agent with PostgresDb"
# needs = ["postgres"]
# id-in-content = true
# promises = "The runs of a session are stored, and its chat history is what they said."
#
# [tool.soak.releases."2.6.4"]
# dependencies = ["agno==2.6.4", "sqlalchemy[asyncio]==2.0.43", "psycopg[binary]==3.2.10"]
# known = { concurrent-writers = ["lost", "rolled_back"] }
# ///
"""agno: an `Agent` with a `PostgresDb` and a model that answers at once; a message is what one run is asked."""

from __future__ import annotations

from agno.agent import Agent
from agno.db.postgres import PostgresDb
from soak_agno import AtOnce
from soak_subject import Message, Surroundings, serve, with_id, without_id


class Runs:
    """A run for each message. Its answer is not part of the conversation that is looked at."""

    def __init__(self, surroundings: Surroundings) -> None:
        db = PostgresDb(db_url=surroundings.postgres_by("psycopg"))
        self._agent = Agent(model=AtOnce(id="at-once"), db=db, telemetry=False)
        # The first run makes the tables. Of two processes that do so at the same moment one fails, and goes on as if it
        # had not; so nobody is served before they are there.
        for _ in range(2):
            self._agent.run("Is anybody there?", session_id="before anybody came")

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
