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

Ids are made by whoever speaks, before sending. So a person who was told that nobody knows may say it `again`: what is
there under that id already is not appended a second time. Nothing is ever sent again without being asked.

An answer is a message like any other. It is shown as it comes and remembered when it is whole, also if nobody listens
any more; one that is broken off is remembered not at all. With a `script` the assistant says that, word for word, which
lets a test know beforehand what has to be in the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from soak.chat.answering import HEADERS as ANSWER_HEADERS
from soak.chat.answering import answered, encoded, refusal
from soak.chat.assistant import UNREACHABLE, UNSEEN, Turn, chunks, reply
from soak.chat.contract import Count, MemoryContract, read_question
from soak.chat.gate import Gate
from soak.chat.naming import answer_to, to_item, to_message
from soak.chat.remembering import Fate, Remembering, State, UnreachableMemoryError
from soak.checker.message import Message, Stored
from soak.page.assets import HEADERS, INDEX, read_assets
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
_STATUS = {State.REMEMBERED: 200, State.NOT_REMEMBERED: 422, State.UNKNOWN: 504}

Conversation = Annotated[str, msgspec.Meta(min_length=1, max_length=CONVERSATION_CHARACTERS_MAX)]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a conversation as a whole."""

    conversation: Conversation
    last: Count | None = None


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """A person says something."""

    conversation: Conversation
    message: Wire
    again: bool = False
    """It was sent before, and nobody knows what became of it."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant is asked to answer what was said."""

    conversation: Conversation
    message: Wire
    script: Wire | None = None


class ChatService:
    """One chat over one memory. Keeps nothing of a conversation between two requests."""

    def __init__(self, remembering: Remembering, *, pace_seconds: float = PACE_SECONDS) -> None:
        self._remembering = remembering
        self._pace_seconds = pace_seconds
        self._assets = read_assets(FOLDER)
        self._speaking: dict[tuple[str, str], asyncio.Task[object]] = {}
        """Answers on their way, by conversation and by the id of what they answer."""

    def application(self, *, by_address_only: bool = True) -> ASGIApp:
        routes = [
            Route("/", self._new_conversation, methods=["GET"]),
            Route("/c/{name:path}", self._page, methods=["GET"]),
            Route("/chat/{name}", self._asset, methods=["GET"]),
            Route("/api/history", self._history, methods=["POST"]),
            Route("/api/say", self._say, methods=["POST"]),
            Route("/api/answer", self._answer, methods=["POST"]),
            Route("/api/forget", self._forget, methods=["POST"]),
            *MemoryContract(self._remembering).routes(),
        ]
        return Gate(Starlette(routes=routes, lifespan=self._lifespan), by_address_only=by_address_only)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _application: Starlette) -> AsyncIterator[None]:
        yield
        await end_tasks(list(self._speaking.values()))

    # The page -----------------------------------------------------------------------------------------------

    async def _new_conversation(self, _request: Request) -> Response:
        name = quote(secrets.token_urlsafe(CONVERSATION_BYTES))
        return RedirectResponse(f"/c/{name}", 303, headers=ANSWER_HEADERS)

    async def _page(self, request: Request) -> Response:
        return self._file(request, INDEX)

    async def _asset(self, request: Request) -> Response:
        return self._file(request, request.path_params["name"])

    def _file(self, request: Request, name: str) -> Response:
        asset = self._assets.get(name)
        if asset is None:
            return refusal(404, "the page has no such file")
        headers = {**HEADERS, "Content-Type": asset.content_type, "ETag": asset.tag}
        if request.headers.get("If-None-Match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, headers=headers)

    # What the page asks -------------------------------------------------------------------------------------

    async def _history(self, request: Request) -> Response:
        asked = await read_question(request, Asked)
        if isinstance(asked, Response):
            return asked
        try:
            items = await self._remembering.history(asked.conversation, asked.last)
        except UnreachableMemoryError as error:
            return answered({"error": str(error)}, 503)
        return answered({"messages": [to_item(item) for item in items]})

    async def _say(self, request: Request) -> Response:
        asked = await read_question(request, Say)
        if isinstance(asked, Response):
            return asked
        message = to_message(asked.conversation, asked.message)
        if asked.again:
            try:
                known = await self._remembering.history(asked.conversation)
            except UnreachableMemoryError as error:
                return _told(Fate(State.UNKNOWN, str(error)))
            if message in known:
                return _told(Fate(State.REMEMBERED))
        return _told(await self._remembering.append(asked.conversation, message))

    async def _forget(self, request: Request) -> Response:
        asked = await read_question(request, Asked)
        return asked if isinstance(asked, Response) else _told(await self._remembering.forget(asked.conversation))

    # What the assistant says --------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response:
        asked = await read_question(request, Answer)
        if isinstance(asked, Response):
            return asked
        key = (asked.conversation, asked.message.id)
        if key in self._speaking:
            return refusal(409, "this is being answered already")
        if len(self._speaking) >= ANSWERS_MAX:
            return refusal(503, "too many are being answered; try again in a moment")
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(PIECES_MAX + 2)
        # A task of its own: whether anybody still listens makes no difference to what is remembered.
        speaking = asyncio.create_task(self._speak(asked, lines))
        self._speaking[key] = speaking
        speaking.add_done_callback(lambda _task: self._speaking.pop(key, None))
        return StreamingResponse(_until_silence(lines), headers=ANSWER_HEADERS, media_type="application/x-ndjson")

    async def _speak(self, asked: Answer, lines: asyncio.Queue[bytes | None]) -> None:
        try:
            await self._say_answer(asked, lines)
        finally:
            with contextlib.suppress(asyncio.QueueFull):
                lines.put_nowait(None)

    async def _say_answer(self, asked: Answer, lines: asyncio.Queue[bytes | None]) -> None:
        session = asked.conversation
        if asked.script is not None:
            answer = to_message(session, asked.script)
        else:
            said = to_message(session, asked.message)
            try:
                known = await self._remembering.history(session, CONTEXT_MESSAGES_MAX)
            except UnreachableMemoryError as error:
                told = {"state": State.NOT_REMEMBERED, "error": str(error), "instead": UNREACHABLE}
                lines.put_nowait(_line(told))
                return
            there = _answer_in(known, said)
            if there is not None:
                lines.put_nowait(_line({"words": there.content}))
                lines.put_nowait(_line({"state": State.REMEMBERED, "message": to_item(there)}))
                return
            answer = answer_to(said, _words_for(known, said))
        for piece in chunks(answer.content, PIECES_MAX):
            lines.put_nowait(_line({"words": piece}))
            await asyncio.sleep(self._pace_seconds)
        fate = await self._remembering.append(session, answer)
        lines.put_nowait(_line({"state": fate.state, "error": fate.why, "message": to_item(answer)}))


def _words_for(known: Sequence[Stored], said: Message) -> str:
    before = [Turn(one.role, one.content) for one in known if isinstance(one, Message) and one.name != said.name]
    words = reply(before, said.content)
    return words if said in known else f"{words} {UNSEEN}"


def _answer_in(known: Sequence[Stored], said: Message) -> Message | None:
    """Find the answer that was remembered already, for one who asks again."""
    name = answer_to(said, "").name
    return next((one for one in known if isinstance(one, Message) and one.name == name), None)


async def _until_silence(lines: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (line := await lines.get()) is not None:
        yield line


def _line(value: object) -> bytes:
    return encoded(value) + b"\n"


def _told(fate: Fate) -> Response:
    """Say what became of it: the page shows exactly that."""
    body: dict[str, object] = {"state": fate.state}
    if fate.why:
        body["error"] = fate.why
    if fate.state is State.NOT_REMEMBERED:
        body["applied"] = False
    return answered(body, _STATUS[fate.state])
