"""Requests and answers of the chat: small JSON requests, not too many at a time, and none from another site.

Any page in a browser on this machine can send requests to 127.0.0.1. The browser says which site it comes from, and a
name that was pointed at this machine on purpose (DNS rebinding) shows in the header Host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from soak.api import http
from soak.api.http import is_cross_site, is_literal, json_response
from soak.chat.memory import UnreachableMemoryError
from soak.json_input import decode_json

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
BODY_BYTES_MAX = 4 * 2**20
REQUESTS_MAX = 256
"""At the same time; one more is refused at once, before anything is done for it."""
SHUTDOWN_SECONDS_MAX = 3.0
"""For answers that are being written when the chat is asked to stop."""

T = TypeVar("T", bound=msgspec.Struct)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RefusedRequestError(Exception):
    """A request that is refused before anything was changed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def answer(value: object, status: int = 200) -> web.Response:
    return json_response(value, status, HEADERS)


def application(*, by_address_only: bool) -> web.Application:
    """Make an application behind the guard; a refusal says that nothing was changed."""
    made = web.Application(middlewares=[_guard(by_address_only=by_address_only)], client_max_size=BODY_BYTES_MAX)
    made.on_response_prepare.append(_drop_server_header)
    return made


def serving(made: web.Application, host: str, port: int) -> AbstractAsyncContextManager[str]:
    """Serve while the block lasts; yields the address."""
    return http.serving(made, host, port, shutdown_seconds=SHUTDOWN_SECONDS_MAX)


async def read_request(request: web.Request, kind: type[T]) -> T:
    """Read the body; raises `RefusedRequestError` for one that is too long or not of this kind."""
    try:
        return decode_json(await request.read(), type=kind)
    except web.HTTPRequestEntityTooLarge:
        raise RefusedRequestError(413, f"the body is longer than {BODY_BYTES_MAX} bytes") from None
    except msgspec.MsgspecError as error:
        raise RefusedRequestError(400, f"invalid request: {error}") from None


def _guard(*, by_address_only: bool) -> Middleware:
    under_way = 0

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal under_way
        under_way += 1
        try:
            _check(request, by_address_only=by_address_only, under_way=under_way)
            return await handler(request)
        except RefusedRequestError as error:
            return answer({"error": str(error), "applied": False}, error.status)
        except UnreachableMemoryError as error:
            return answer({"error": str(error)}, 503)
        finally:
            under_way -= 1

    return guard


def _check(request: web.Request, *, by_address_only: bool, under_way: int) -> None:
    if by_address_only and not is_literal(request.host):
        raise RefusedRequestError(403, "use the address 127.0.0.1, or localhost")
    if under_way > REQUESTS_MAX:
        raise RefusedRequestError(503, "too many requests at the same time; try again in a moment")
    if request.method in {"GET", "HEAD"}:
        return
    if is_cross_site(request):
        raise RefusedRequestError(403, "refused: the request comes from another site")
    if request.content_type != "application/json":
        raise RefusedRequestError(415, "send it as application/json")


async def _drop_server_header(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)
