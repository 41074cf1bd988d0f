"""Limits on connections to our HTTP server: how many, how long without a request, how long one may take to send.

aiohttp bounds the size of a request and the pause between two, but not the time that the first one takes to arrive, nor
the number of connections: sockets that say nothing, or one byte a minute, would stay for ever.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

CONNECTIONS_MAX = 200
"""More of them may come at one moment, as many as the system lets wait; they are closed at the next look."""
IDLE_SECONDS_MAX = 20.0
"""Without a whole request, from the beginning or since the last answer."""
BODY_SECONDS_MAX = 10.0
LOOK_SECONDS = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Connections:
    """Knows which connections are being answered, and closes those that only stay."""

    def __init__(self) -> None:
        self._since: dict[Any, float] = {}
        """By connection: when it was seen first, or was last answered."""
        self._answering: Counter[int] = Counter()
        self._server: web.Server | None = None
        self._task: asyncio.Task[None] | None = None

    def watch(self, server: web.Server) -> None:
        self._server = server
        self._task = asyncio.create_task(self._look_forever(), name="connections")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def accept(self) -> asyncio.BaseProtocol:
        """Make the protocol of a new connection; where there are too many, the one that waits longest gives way."""
        assert self._server is not None  # noqa: S101  it is watched before anybody connects
        idle = self._idle()
        if len(self._server.connections) >= CONNECTIONS_MAX:
            if not idle:
                return _Refusal()
            idle[0].force_close()
        handler = self._server()
        self._since[handler] = time.monotonic()
        return handler

    def middleware(self) -> Middleware:
        @web.middleware
        async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = request.protocol
            self._answering[id(connection)] += 1
            try:
                return await handler(request)
            finally:
                self._answering[id(connection)] -= 1
                self._answering += Counter()  # forgets those at zero
                self._since[connection] = time.monotonic()

        return answering

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            self._forget_closed()
            idle = self._idle()
            too_many = max(0, len(self._since) - CONNECTIONS_MAX)
            for number, connection in enumerate(idle):
                if number < too_many or now - self._since[connection] > IDLE_SECONDS_MAX:
                    connection.force_close()

    def _forget_closed(self) -> None:
        assert self._server is not None  # noqa: S101
        there = set(self._server.connections)
        self._since = {one: since for one, since in self._since.items() if one in there}

    def _idle(self) -> list[Any]:
        """Return the connections that nobody is answering, the one that waits longest first."""
        assert self._server is not None  # noqa: S101
        idle = [one for one in self._server.connections if not self._answering[id(one)]]
        return sorted(idle, key=lambda one: self._since.setdefault(one, time.monotonic()))


class _Refusal(asyncio.Protocol):
    """Closes a connection as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def read_body(request: web.Request) -> bytes:
    """Return the body of a request; one that does not come in time is answered with 408."""
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body did not arrive in time") from None
