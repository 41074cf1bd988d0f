"""A way to the servers on which a reply gets lost after the server has done what it was asked.

It is the most telling of all network faults: a client that sends again what was already applied applies it twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from soak.servers.kinds import POSTGRES, REDIS

_HOST = "127.0.0.1"
_PORTS = {REDIS.name: 6379, POSTGRES.name: 5432}
"""Of an address that names none."""
_CHUNK_BYTES = 65536
_CONNECT_SECONDS_MAX = 10.0


class LostReplies:
    """Stands before each server, on the loop of the test; `servers` has the addresses to use instead."""

    def __init__(self, servers: Mapping[str, str]) -> None:
        self._upstream = servers
        self.servers: dict[str, str] = {}
        self._listeners: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._replies_to_pass: int | None = None

    def lose_reply(self, number: int) -> None:
        """Lose one reply: the first from now on, or the one after so many others."""
        self._replies_to_pass = number

    def lose_none(self) -> None:
        self._replies_to_pass = None

    async def __aenter__(self) -> Self:
        for kind, url in self._upstream.items():
            parts = urlsplit(url)
            upstream = parts.hostname or _HOST, parts.port or _PORTS[kind.partition("-")[0]]
            listener = await asyncio.start_server(self._serving(*upstream), _HOST, 0)
            self._listeners.append(listener)
            port = listener.sockets[0].getsockname()[1]
            login, at, _ = parts.netloc.rpartition("@")
            self.servers[kind] = urlunsplit(parts._replace(netloc=f"{login}{at}{_HOST}:{port}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.close()
        for writer in list(self._writers):
            writer.transport.abort()
        # Lets the tasks that served these connections end.
        await asyncio.sleep(0.01)

    def _serving(self, host: str, port: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                    up_reader, up_writer = await asyncio.open_connection(host, port)
                self._writers |= {writer, up_writer}
                await asyncio.gather(self._requests(reader, up_writer), self._replies(up_reader, writer))
                self._writers -= {writer, up_writer}
            writer.transport.abort()

        return serve

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_CHUNK_BYTES):
                if self._is_lost():
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    def _is_lost(self) -> bool:
        if self._replies_to_pass is None:
            return False
        self._replies_to_pass -= 1
        if self._replies_to_pass >= 0:
            return False
        self._replies_to_pass = None
        return True
