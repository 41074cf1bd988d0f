"""The chat's memory behind soak's JSON contract, so that the chat itself can be soaked.

`soak check --store http --url http://127.0.0.1:PORT` soaks it, `soak conformance --url ...` checks it.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Annotated

import msgspec
from aiohttp import web

from soak.chat.http import answer, read_request
from soak.chat.memory import ChatMemory, UnreachableMemoryError, WriteResult, WriteState, to_item, to_message
from soak.checker.message import Message
from soak.stores import http_contract as wire

LIMIT_MAX = 1_000_000
INDEX_SESSION = "soak-chat-index"
"""The session that holds the names of the others."""
INDEXED_MAX = 20_000
"""Names that need not be written again; one that was evicted is written twice, which does no harm."""
_STATUS = {WriteState.NOT_REMEMBERED: 422, WriteState.UNKNOWN: 500}

Count = Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of an append."""

    session: str
    message: wire.Wire


class HistoryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a history."""

    session: str
    last: Count | None = None


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a search."""

    session: str
    text: str
    limit: Count


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a forget."""

    session: str


class CleanUpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a clean-up."""

    namespace: Annotated[str, msgspec.Meta(min_length=1)]


class SessionIndex:
    """Writes each session's name into the memory itself before its first message: a store lists no sessions."""

    def __init__(self, memory: ChatMemory) -> None:
        self._memory = memory
        self._indexed: OrderedDict[str, None] = OrderedDict()

    async def add(self, session: str) -> None:
        """Record that this session exists. A failure is no reason to refuse the message."""
        if session in self._indexed or session == INDEX_SESSION:
            return
        self._indexed[session] = None
        if len(self._indexed) > INDEXED_MAX:
            self._indexed.popitem(last=False)
        entry = to_message(INDEX_SESSION, wire.Wire(id=uuid.uuid4().hex, role="index", content=session))
        result = await self._memory.append(INDEX_SESSION, entry)
        if result.state is not WriteState.REMEMBERED:
            self._indexed.pop(session, None)

    async def forget_all(self, prefix: str) -> int:
        """Forget every session whose name has this prefix; raises `UnreachableMemoryError` if one is left."""
        entries = await self._memory.history(INDEX_SESSION)
        known = {one.content for one in entries if isinstance(one, Message)}
        names = {name for name in known if name.startswith(prefix)}
        for name in sorted(names):
            result = await self._memory.forget(name)
            if result.state is not WriteState.REMEMBERED:
                raise UnreachableMemoryError(f"session {name!r} is not forgotten: {result.why}")
            self._indexed.pop(name, None)
        if names == known:
            await self._memory.forget(INDEX_SESSION)
        return len(names)


class ContractRoutes:
    """Answers append, history, forget and the rest over one store."""

    def __init__(self, memory: ChatMemory, *, cleans_up: bool = True) -> None:
        self._memory = memory
        self._index = SessionIndex(memory)
        self._cleans_up = cleans_up
        self._started = uuid.uuid4().hex

    def routes(self) -> list[web.RouteDef]:
        routes = [
            web.get(wire.HEALTH, self._health),
            web.post(wire.APPEND, self._append),
            web.post(wire.HISTORY, self._history),
            web.post(wire.FORGET, self._forget),
        ]
        if self._cleans_up:
            routes.append(web.post(wire.CLEAN_UP, self._clean_up))
        if self._memory.can_search:
            routes.append(web.post(wire.SEARCH, self._search))
        return routes

    async def _health(self, _request: web.Request) -> web.Response:
        offered = {"clean-up": self._cleans_up, "search": self._memory.can_search}
        features = [feature for feature, is_offered in offered.items() if is_offered]
        health = wire.Health(contract=wire.CONTRACT, features=features, name="soak chat", started=self._started)
        return answer(health)

    async def _append(self, request: web.Request) -> web.Response:
        asked = await read_request(request, AppendRequest)
        if self._cleans_up:
            await self._index.add(asked.session)
        result = await self._memory.append(asked.session, to_message(asked.session, asked.message))
        return _answer_write(result, {"id": asked.message.id}, 201)

    async def _history(self, request: web.Request) -> web.Response:
        asked = await read_request(request, HistoryRequest)
        items = await self._memory.history(asked.session, asked.last)
        return answer({"messages": [to_item(item) for item in items]})

    async def _search(self, request: web.Request) -> web.Response:
        asked = await read_request(request, SearchRequest)
        items = await self._memory.search(asked.session, asked.text, asked.limit)
        return answer({"messages": [to_item(item) for item in items]})

    async def _forget(self, request: web.Request) -> web.Response:
        asked = await read_request(request, ForgetRequest)
        return _answer_write(await self._memory.forget(asked.session), {"forgotten": True}, 200)

    async def _clean_up(self, request: web.Request) -> web.Response:
        asked = await read_request(request, CleanUpRequest)
        return answer({"removed": await self._index.forget_all(asked.namespace)})


def _answer_write(result: WriteResult, acknowledgement: object, status: int) -> web.Response:
    """Answer a write; where its outcome is unknown, nothing is claimed."""
    if result.state is WriteState.REMEMBERED:
        return answer(acknowledgement, status)
    body: dict[str, object] = {"state": result.state, "error": result.why}
    if result.state is WriteState.NOT_REMEMBERED:
        body["applied"] = False
    return answer(body, _STATUS[result.state])
