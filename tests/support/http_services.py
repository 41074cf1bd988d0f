"""Memories behind HTTP for tests: a correct one in this process's memory, and ways in which services go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]


class Service:
    """Speaks the contract. Each method can be replaced by one that gets it wrong."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.asked: list[str] = []
        """The paths of all requests, in order."""
        self.connections = 0
        self.token: str | None = None

    async def health(self, _request: web.Request, /) -> web.StreamResponse:
        return web.json_response({"contract": "soak-memory/1", "features": ["clean-up", "search"], "name": "test"})

    async def append(self, request: web.Request, /) -> web.StreamResponse:
        question = await self.question(request)
        self.sessions[question["session"]].append(question["message"])
        return web.json_response({"id": question["message"]["id"]}, status=201)

    async def history(self, request: web.Request, /) -> web.StreamResponse:
        question = await self.question(request)
        messages = list(self.sessions.get(question["session"], []))
        return web.json_response({"messages": messages[-question["last"] :] if "last" in question else messages})

    async def forget(self, request: web.Request, /) -> web.StreamResponse:
        self.sessions.pop((await self.question(request))["session"], None)
        return web.json_response({"forgotten": True})

    async def search(self, request: web.Request, /) -> web.StreamResponse:
        question = await self.question(request)
        words = question["text"].split()
        nearest = sorted(
            self.sessions.get(question["session"], []),
            key=lambda message: -sum(word in message["content"].split() for word in words),
        )
        return web.json_response({"messages": nearest[: question["limit"]]})

    async def clean_up(self, request: web.Request) -> web.StreamResponse:
        namespace = (await self.question(request))["namespace"]
        gone = [session for session in self.sessions if session.startswith(namespace)]
        for session in gone:
            del self.sessions[session]
        return web.json_response({"removed": len(gone)})

    async def question(self, request: web.Request) -> dict[str, Any]:
        try:
            asked = json.loads(await request.read())
            if not isinstance(asked, dict) or not {"session", "namespace"} & set(asked):
                raise ValueError("no question")  # noqa: TRY301
        except ValueError as error:
            raise web.HTTPBadRequest(text=json.dumps({"error": str(error)}), content_type="application/json") from error
        return asked

    def application(self) -> web.Application:
        app = web.Application(client_max_size=2**24, middlewares=[self._noting])
        for method, path, name in (
            ("GET", "/v1/health", "health"),
            ("POST", "/v1/append", "append"),
            ("POST", "/v1/history", "history"),
            ("POST", "/v1/forget", "forget"),
            ("POST", "/v1/search", "search"),
            ("POST", "/v1/clean-up", "clean_up"),
        ):
            # Looked up at each request, so that a test can change its mind.
            app.router.add_route(method, path, self._handler(name))
        return app

    def _handler(self, name: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer: web.StreamResponse = await getattr(self, name)(request)
            return answer

        return handle

    @property
    def _noting(self) -> Any:
        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.asked.append(request.path)
            if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
                return web.json_response({"error": "who are you?"}, status=401)
            return await handler(request)

        return note


@contextlib.asynccontextmanager
async def serving(service: Service, **options: Any) -> AsyncIterator[str]:
    """Serve it on a free port of this machine; gives its address."""
    runner = web.AppRunner(service.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, **options)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        yield f"{'https' if options.get('ssl_context') else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def page(_request: web.Request) -> web.StreamResponse:
    """Answer as a login page does that stands before everything."""
    return web.Response(text="<html><body>Please log in</body></html>", content_type="text/html")


async def silence(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


def cut_short(answer: Handler) -> Handler:
    """Promise a whole answer, send half of it and hang up."""

    async def half(request: web.Request) -> web.StreamResponse:
        whole = await answer(request)
        assert isinstance(whole, web.Response)
        body = bytes(whole.body)  # type: ignore[arg-type]
        cut = web.StreamResponse(status=whole.status, headers={"Content-Type": "application/json"})
        cut.content_length = len(body)
        await cut.prepare(request)
        await cut.write(body[: len(body) // 2])
        assert request.transport is not None
        request.transport.close()
        return cut

    return half


def with_status(answer: Handler, status: int, body: dict[str, Any] | None = None) -> Handler:
    """Do the work, and answer something else."""

    async def other(request: web.Request) -> web.StreamResponse:
        await answer(request)
        return web.json_response(body if body is not None else {"error": "sorry"}, status=status)

    return other


def hanging_up(answer: Handler) -> Handler:
    """Do the work, and hang up without an answer."""

    async def gone(request: web.Request) -> web.StreamResponse:
        whole = await answer(request)
        assert request.transport is not None
        request.transport.close()
        return whole

    return gone
