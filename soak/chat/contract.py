"""The same memory behind soak's JSON contract: the chat is a subject, too.

`soak check --store http --url http://127.0.0.1:PORT` soaks it, `soak conformance --url ...` visits it.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from soak.chat.answering import answered, refusal
from soak.chat.gate import BODY_BYTES_MAX, whole_body
from soak.chat.index import Index
from soak.chat.naming import to_item, to_message
from soak.chat.remembering import Fate, Remembering, State, UnreachableMemoryError
from soak.json_input import decode_json
from soak.stores import http_contract as wire

T = TypeVar("T", bound=msgspec.Struct)

LIMIT_MAX = 1_000_000
_STATUS = {State.NOT_REMEMBERED: 422, State.UNKNOWN: 500}

Handler = Callable[[Request], Awaitable[Response]]
Count = Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of an append."""

    session: str
    message: wire.Wire


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a history."""

    session: str
    last: Count | None = None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a search."""

    session: str
    text: str
    limit: Count


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a forget."""

    session: str


class CleanUp(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a clean-up."""

    namespace: Annotated[str, msgspec.Meta(min_length=1)]


class MemoryContract:
    """Answers append, history, forget and the rest over one store."""

    def __init__(self, remembering: Remembering, *, cleans_up: bool = True) -> None:
        self._remembering = remembering
        self._index = Index(remembering) if cleans_up else None
        self._started = uuid.uuid4().hex

    def routes(self) -> list[Route]:
        routes = [
            Route(wire.HEALTH, self._health, methods=["GET"]),
            Route(wire.APPEND, self._append, methods=["POST"]),
            Route(wire.HISTORY, self._history, methods=["POST"]),
            Route(wire.FORGET, self._forget, methods=["POST"]),
        ]
        if self._index is not None:
            routes.append(Route(wire.CLEAN_UP, self._clean_up, methods=["POST"]))
        if self._remembering.can_search:
            routes.append(Route(wire.SEARCH, self._search, methods=["POST"]))
        return routes

    async def _health(self, _request: Request) -> Response:
        offered = {"clean-up": self._index is not None, "search": self._remembering.can_search}
        features = [feature for feature, is_offered in offered.items() if is_offered]
        health = wire.Health(contract=wire.CONTRACT, features=features, name="soak chat", started=self._started)
        return answered(health)

    async def _append(self, request: Request) -> Response:
        asked = await read_question(request, Append)
        if isinstance(asked, Response):
            return asked
        if self._index is not None:
            await self._index.note(asked.session)
        fate = await self._remembering.append(asked.session, to_message(asked.session, asked.message))
        return answered({"id": asked.message.id}, 201) if fate.state is State.REMEMBERED else told(fate)

    async def _history(self, request: Request) -> Response:
        asked = await read_question(request, History)
        if isinstance(asked, Response):
            return asked
        try:
            items = await self._remembering.history(asked.session, asked.last)
        except UnreachableMemoryError as error:
            return answered({"error": str(error)}, 503)
        return answered({"messages": [to_item(item) for item in items]})

    async def _search(self, request: Request) -> Response:
        asked = await read_question(request, Search)
        if isinstance(asked, Response):
            return asked
        try:
            items = await self._remembering.search(asked.session, asked.text, asked.limit)
        except UnreachableMemoryError as error:
            return answered({"error": str(error)}, 503)
        return answered({"messages": [to_item(item) for item in items]})

    async def _forget(self, request: Request) -> Response:
        asked = await read_question(request, Forget)
        if isinstance(asked, Response):
            return asked
        fate = await self._remembering.forget(asked.session)
        return answered({"forgotten": True}) if fate.state is State.REMEMBERED else told(fate)

    async def _clean_up(self, request: Request) -> Response:
        asked = await read_question(request, CleanUp)
        if isinstance(asked, Response):
            return asked
        assert self._index is not None  # noqa: S101  or there would be no such route
        try:
            return answered({"removed": await self._index.forget_all(asked.namespace)})
        except UnreachableMemoryError as error:
            return answered({"error": str(error)}, 503)


async def read_question(request: Request, kind: type[T]) -> T | Response:
    """Read what is asked, or return the answer to what is no such question; nothing was changed then."""
    body = await whole_body(request)
    if body is None:
        return refusal(413, f"this is longer than {BODY_BYTES_MAX} bytes")
    try:
        return decode_json(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return refusal(400, f"this is not understood: {error}")


def told(fate: Fate) -> Response:
    """Say what became of a change that was not acknowledged; where nobody knows, nothing is claimed."""
    body: dict[str, object] = {"state": fate.state, "error": fate.why}
    if fate.state is State.NOT_REMEMBERED:
        body["applied"] = False
    return answered(body, _STATUS[fate.state])
