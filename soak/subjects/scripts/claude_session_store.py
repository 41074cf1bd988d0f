# /// script
# requires-python = ">=3.11"
# dependencies = ["claude-agent-sdk==0.2.184"]
#
# [tool.soak]
# library = "claude-agent-sdk"
# title = "any SessionStore of the Claude Agent SDK"
# takes-factory = true
# promises = "Entries are persisted in the order of the append calls, and load returns all of them."
# ///
"""claude-agent-sdk: the `SessionStore` that `NAME=module:factory` names, called as the SDK calls it, once.

The SDK mirrors the transcript of its program to the store in batches, and tries a batch that failed up to three times.
Here a message is a batch of one entry with a `uuid`, and nothing is tried again: what one call does is looked at. The
factory is called with the address of the server, or with the path of a file; one that takes no argument, without.
"""

from __future__ import annotations

import inspect
from typing import Any

from claude_agent_sdk import SessionStore
from soak_subject import ChatTurn, RefusedError, Surroundings, serve

PROJECT = "soak"


class Transcripts:
    """A transcript for each session. A message is an entry as the SDK writes them, its id is the entry's."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def append(self, session: str, message: ChatTurn) -> None:
        said = {"role": message.role, "content": message.content}
        entry: Any = {"type": message.role, "uuid": message.id, "sessionId": session, "message": said}
        await self._store.append(_key(session), [entry])

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        entries: list[Any] = await self._store.load(_key(session)) or []
        said = [(one.get("uuid"), one.get("message") or {}) for one in entries]
        turns = [ChatTurn(uuid, message.get("role"), message.get("content")) for uuid, message in said]
        return turns if last is None else turns[-last:]

    async def forget(self, session: str) -> None:
        delete = getattr(type(self._store), "delete", None)
        if delete is None or delete is SessionStore.delete:
            raise RefusedError("this store cannot delete, which is optional")
        await self._store.delete(_key(session))


def _key(session: str) -> Any:
    return {"project_key": PROJECT, "session_id": session}


async def open_transcripts(surroundings: Surroundings) -> Transcripts:
    """Make the store on the event loop that it is used on."""
    factory = surroundings.found_factory()
    takes = inspect.signature(factory).parameters
    made: Any = factory(surroundings.address) if takes else factory()
    if inspect.isawaitable(made):
        made = await made
    return Transcripts(made)


if __name__ == "__main__":
    serve(open_transcripts)
