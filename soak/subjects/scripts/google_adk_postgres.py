# /// script
# requires-python = ">=3.11"
# dependencies = ["google-adk[db]==2.13.0", "sqlalchemy[asyncio]==2.1.8", "asyncpg==0.32.0"]
#
# [tool.soak]
# library = "google-adk"
# title = "google-adk DatabaseSessionService on PostgreSQL"
# needs = ["postgres"]
# promises = "Events in chronological order; an append to a session that has changed since it was read is refused."
# ///
"""google-adk: `DatabaseSessionService`; a message is an event, appended to the session as it was just read.

The library refuses a session that another process has changed in between, before anything is written.
"""

from __future__ import annotations

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from soak_subject import ChatTurn, RefusedError, Surroundings, serve

APP, USER = "soak", "anybody"


class Events:
    """A session of one app and one user for each session; the id is the invocation's."""

    def __init__(self, surroundings: Surroundings) -> None:
        url = surroundings.postgres_by("asyncpg")
        self._service = DatabaseSessionService(db_url=url)

    async def append(self, session: str, message: ChatTurn) -> None:
        known = await self._service.get_session(app_name=APP, user_id=USER, session_id=session)
        if known is None:
            known = await self._service.create_session(app_name=APP, user_id=USER, session_id=session)
        said = types.Content(role=message.role, parts=[types.Part(text=message.content)])
        event = Event(author=message.role, invocation_id=message.id, content=said)
        try:
            await self._service.append_event(known, event)
        except Exception as error:
            if type(error).__name__ == "StaleSessionError":
                raise RefusedError(str(error)) from error
            raise

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        config = GetSessionConfig(num_recent_events=last) if last is not None else None
        known = await self._service.get_session(app_name=APP, user_id=USER, session_id=session, config=config)
        return [_said(event) for event in known.events] if known is not None else []

    async def forget(self, session: str) -> None:
        await self._service.delete_session(app_name=APP, user_id=USER, session_id=session)


def _said(event: Event) -> ChatTurn:
    parts = event.content.parts if event.content is not None else None
    return ChatTurn(event.invocation_id, event.author, parts[0].text if parts else None)


if __name__ == "__main__":
    serve(Events)
