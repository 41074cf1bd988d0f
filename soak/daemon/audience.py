"""Whoever watches the page: each gets the newest state, as fast as it can take it, and none slows the others.

A watcher has room for one state. While it is busy with the last one, newer ones replace each other there, so that one
that is slow sees fewer, never older, and costs no memory. One that takes nothing at all is let go.
"""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

WATCHERS_MAX = 32
STALLED_SECONDS_MAX = 20.0
SEND_BUFFER_BYTES = 64 * 1024
RETRY_MS = 1_000
"""How long a browser waits before it connects again."""

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class Watcher:
    """One connection, and the newest that is waiting for it."""

    def __init__(self) -> None:
        self._newest: bytes | None = None
        self._last: bytes | None = None
        self._woken = asyncio.Event()

    def give(self, frame: bytes, *, is_last: bool = False) -> None:
        if is_last:
            self._last = frame
        else:
            self._newest = frame
        self._woken.set()

    async def take(self) -> tuple[bytes, bool]:
        """Wait for what is newest; and whether nothing comes after it."""
        await self._woken.wait()
        self._woken.clear()
        frame, self._newest = self._newest or b"", None
        return (frame, False) if self._last is None else (frame + self._last, True)


class Audience:
    """All watchers; each gets everything."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self._is_over = False

    @property
    def size(self) -> int:
        return len(self._watchers)

    @property
    def is_full(self) -> bool:
        return self._is_over or len(self._watchers) >= WATCHERS_MAX

    async def attend(self, request: web.Request, first: bytes) -> web.StreamResponse:
        """Serve one watcher until it leaves, stalls, or all is over."""
        response = web.StreamResponse(headers=HEADERS)
        watcher = Watcher()
        self._watchers.add(watcher)
        watcher.give(f"retry: {RETRY_MS}\n\n".encode() + first)
        try:
            await response.prepare(request)
            if request.transport is not None:
                request.transport.set_write_buffer_limits(high=SEND_BUFFER_BYTES)
            await self._tell(response, watcher)
        except (ConnectionError, TimeoutError):
            # Whatever still waits to be sent would wait for ever.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._watchers.discard(watcher)
        return response

    async def _tell(self, response: web.StreamResponse, watcher: Watcher) -> None:
        is_over = False
        while not is_over:
            frame, is_over = await watcher.take()
            async with asyncio.timeout(STALLED_SECONDS_MAX):
                await response.write(frame)
        with contextlib.suppress(ConnectionError):
            await response.write_eof()

    def publish(self, frame: bytes) -> None:
        for watcher in self._watchers:
            watcher.give(frame)

    def end(self, frame: bytes) -> None:
        """Send everybody the last state; nobody is let in after it."""
        self._is_over = True
        for watcher in self._watchers:
            watcher.give(frame, is_last=True)


def frame_of(name: str, data: bytes) -> bytes:
    """Write an event; the data is JSON, which has no line breaks."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
