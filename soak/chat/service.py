"""The chat over HTTP: its page, what the page asks, and soak's own contract over the same memory.

| call | asked | answered |
|---|---|---|
| `GET /` | | a redirect to a new conversation |
| `GET /c/NAME` | | the page of a conversation |
| `POST /api/history` | `{"conversation", "last"?}` | 200 `{"messages": [...]}`, or 503: no answer |
| `POST /api/say` | `{"conversation", "message", "again"?}` | `{"state": "remembered"}`, or another state |
| `POST /api/answer` | `{"conversation", "message", "script"?}` | lines: `{"words"}` ..., then `{"state", "message"}` |
| `POST /api/forget` | `{"conversation"}` | `{"state": "remembered"}` once it is forgotten |
| `/v1/...` | see `soak.chat.contract` | |

A message is `{"id", "role", "content"}`; its state is `remembered`, `not remembered` (for certain) or `unknown`.

The speaker makes the ids, before sending. So after an unknown outcome a person may say it `again`: what is
there under that id already is not appended a second time. Nothing is ever sent again without being asked.

An answer is a message like any other. It is shown as it comes and remembered when it is whole, also if nobody listens
any more; one that is broken off is remembered not at all. With a `script` the assistant says that, word for word, which
lets a test know beforehand what has to be in the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
from aiohttp import web

from soak.api.http import encode_json
from soak.chat import http
from soak.chat.assistant import UNREACHABLE, UNSEEN, Turn, chunks, reply
from soak.chat.contract import ContractRoutes, Count
from soak.chat.http import RefusedRequestError, answer, read_request
from soak.chat.memory import (
    ChatMemory,
    UnreachableMemoryError,
    WriteResult,
    WriteState,
    answer_to,
    to_item,
    to_message,
)
from soak.checker.message import Message, Stored
from soak.page.assets import INDEX, answer_file, read_assets
from soak.stores.http_contract import Wire
from soak.tasks import end_tasks

FOLDER = Path(__file__).parent / "files"
PACE_SECONDS = 0.03
"""Pause between two words of an answer, so that it reads as one that is being written."""
PIECES_MAX = 60
ANSWERS_MAX = 64
"""At the same time."""
CONVERSATION_BYTES = 9
CONVERSATION_CHARACTERS_MAX = 400
CONTEXT_MESSAGES_MAX = 2_000
"""How far back the assistant looks."""
_STATUS = {WriteState.REMEMBERED: 200, WriteState.NOT_REMEMBERED: 422, WriteState.UNKNOWN: 504}

Conversation = Annotated[str, msgspec.Meta(min_length=1, max_length=CONVERSATION_CHARACTERS_MAX)]


class ConversationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request about a conversation as a whole."""

    conversation: Conversation
    last: Count | None = None


class SayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A person says something."""

    conversation: Conversation
    message: Wire
    again: bool = False
    """It was sent before, and its outcome is unknown."""


class AnswerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant is asked to answer a message."""

    conversation: Conversation
    message: Wire
    script: Wire | None = None


class ChatService:
    """One chat over one memory. Keeps nothing of a conversation between two requests."""

    def __init__(self, memory: ChatMemory, *, pace_seconds: float = PACE_SECONDS) -> None:
        self._memory = memory
        self._pace_seconds = pace_seconds
        self._assets = read_assets(FOLDER)
        self._speaking: dict[tuple[str, str], asyncio.Task[object]] = {}
        """Answers on their way, by conversation and by the id of the message they answer."""

    def application(self, *, by_address_only: bool = True) -> web.Application:
        application = http.application(by_address_only=by_address_only)
        application.on_cleanup.append(self._end_answers)
        application.add_routes(
            [
                web.get("/", self._new_conversation),
                web.get("/c/{name:.*}", self._page),
                web.get("/chat/{name}", self._asset),
                web.post("/api/history", self._history),
                web.post("/api/say", self._say),
                web.post("/api/answer", self._answer),
                web.post("/api/forget", self._forget),
                *ContractRoutes(self._memory).routes(),
            ]
        )
        return application

    async def _end_answers(self, _application: web.Application) -> None:
        await end_tasks(list(self._speaking.values()))

    # The page -----------------------------------------------------------------------------------------------

    async def _new_conversation(self, _request: web.Request) -> web.Response:
        name = quote(secrets.token_urlsafe(CONVERSATION_BYTES))
        return web.Response(status=303, headers={**http.HEADERS, "Location": f"/c/{name}"})

    async def _page(self, request: web.Request) -> web.Response:
        return answer_file(request, self._assets[INDEX])

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise RefusedRequestError(404, "the page has no such file")
        return answer_file(request, asset)

    # What the page asks -------------------------------------------------------------------------------------

    async def _history(self, request: web.Request) -> web.Response:
        asked = await read_request(request, ConversationRequest)
        items = await self._memory.history(asked.conversation, asked.last)
        return answer({"messages": [to_item(item) for item in items]})

    async def _say(self, request: web.Request) -> web.Response:
        asked = await read_request(request, SayRequest)
        message = to_message(asked.conversation, asked.message)
        if asked.again:
            try:
                known = await self._memory.history(asked.conversation)
            except UnreachableMemoryError as error:
                return _answer_write(WriteResult(WriteState.UNKNOWN, str(error)))
            if message in known:
                return _answer_write(WriteResult(WriteState.REMEMBERED))
        return _answer_write(await self._memory.append(asked.conversation, message))

    async def _forget(self, request: web.Request) -> web.Response:
        asked = await read_request(request, ConversationRequest)
        return _answer_write(await self._memory.forget(asked.conversation))

    # What the assistant says --------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = await read_request(request, AnswerRequest)
        key = (asked.conversation, asked.message.id)
        if key in self._speaking:
            raise RefusedRequestError(409, "this is being answered already")
        if len(self._speaking) >= ANSWERS_MAX:
            raise RefusedRequestError(503, "too many are being answered; try again in a moment")
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(PIECES_MAX + 2)
        # A task of its own: the answer is remembered whether anybody still listens or not.
        speaking = asyncio.create_task(self._speak(asked, lines))
        self._speaking[key] = speaking
        speaking.add_done_callback(lambda _task: self._speaking.pop(key, None))
        response = web.StreamResponse(headers={**http.HEADERS, "Content-Type": "application/x-ndjson"})
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            while (line := await lines.get()) is not None:
                await response.write(line)
            await response.write_eof()
        return response

    async def _speak(self, asked: AnswerRequest, lines: asyncio.Queue[bytes | None]) -> None:
        try:
            await self._say_answer(asked, lines)
        finally:
            with contextlib.suppress(asyncio.QueueFull):
                lines.put_nowait(None)

    async def _say_answer(self, asked: AnswerRequest, lines: asyncio.Queue[bytes | None]) -> None:
        session = asked.conversation
        if asked.script is not None:
            answered = to_message(session, asked.script)
        else:
            said = to_message(session, asked.message)
            try:
                known = await self._memory.history(session, CONTEXT_MESSAGES_MAX)
            except UnreachableMemoryError as error:
                instead = {"state": WriteState.NOT_REMEMBERED, "error": str(error), "instead": UNREACHABLE}
                lines.put_nowait(_line(instead))
                return
            there = _answer_in(known, said)
            if there is not None:
                lines.put_nowait(_line({"words": there.content}))
                lines.put_nowait(_line({"state": WriteState.REMEMBERED, "message": to_item(there)}))
                return
            answered = answer_to(said, _words_for(known, said))
        for piece in chunks(answered.content, PIECES_MAX):
            lines.put_nowait(_line({"words": piece}))
            await asyncio.sleep(self._pace_seconds)
        result = await self._memory.append(session, answered)
        lines.put_nowait(_line({"state": result.state, "error": result.why, "message": to_item(answered)}))


def _words_for(known: Sequence[Stored], said: Message) -> str:
    before = [Turn(one.role, one.content) for one in known if isinstance(one, Message) and one.name != said.name]
    words = reply(before, said.content)
    return words if said in known else f"{words} {UNSEEN}"


def _answer_in(known: Sequence[Stored], said: Message) -> Message | None:
    """Find the answer that was remembered already, for one who asks again."""
    name = answer_to(said, "").name
    return next((one for one in known if isinstance(one, Message) and one.name == name), None)


def _line(value: object) -> bytes:
    return encode_json(value) + b"\n"


def _answer_write(result: WriteResult) -> web.Response:
    """Answer a write with its state: the page shows exactly that."""
    body: dict[str, object] = {"state": result.state}
    if result.why:
        body["error"] = result.why
    if result.state is WriteState.NOT_REMEMBERED:
        body["applied"] = False
    return answer(body, _STATUS[result.state])
