"""What is let in to the service: small requests, not too many at a time, and none for another site.

Any page in a browser on this machine can send requests to 127.0.0.1. It cannot help telling where it comes from, and a
name that was pointed at this machine on purpose shows in the header Host.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from soak.chat.answering import refusal
from soak.daemon.permission import SAME_SITE, is_literal

BODY_BYTES_MAX = 4 * 2**20
REQUESTS_MAX = 256
"""At the same time; one more is turned away at once, before anything is done for it."""


class Gate:
    """Stands before the application. Whatever it refuses has changed nothing, and it says so."""

    def __init__(self, application: ASGIApp, *, by_address_only: bool) -> None:
        self._application = application
        self._by_address_only = by_address_only
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        refused = self._refusal(scope["method"], Headers(scope=scope))
        if refused is not None:
            await refused(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._under_way -= 1

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        host = headers.get("Host", "")
        if self._by_address_only and not is_literal(host):
            return refusal(403, "ask under the address 127.0.0.1, or localhost")
        if self._under_way >= REQUESTS_MAX:
            return refusal(503, "too much is asked at the same time; try again in a moment")
        if method in {"GET", "HEAD"}:
            return None
        return _refusal_of_change(headers, host)


def _refusal_of_change(headers: Headers, host: str) -> Response | None:
    origin = headers.get("Origin")
    is_elsewhere = origin is not None and origin.partition("://")[2] != host
    if is_elsewhere or headers.get("Sec-Fetch-Site", "none") not in SAME_SITE:
        return refusal(403, "this is not done for another site")
    if headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        return refusal(415, "send it as application/json")
    return None


async def whole_body(request: Request) -> bytes | None:
    """Read what was sent; None if it is more than anybody has to say."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MAX:
            return None
        parts.append(part)
    return b"".join(parts)
