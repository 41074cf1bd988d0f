"""The verifier's own page: metrics, status, health. On loopback unless another address is given."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from soak.api import http
from soak.api.http import json_response
from soak.exposition import Exposition, asked_for
from soak.verifier.result import VerifierStatus


@contextlib.asynccontextmanager
async def serving(
    host: str, port: int, *, metrics: Callable[[Exposition], bytes], status: Callable[[], VerifierStatus]
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port, which matters when any free one was asked for."""

    async def get_metrics(request: web.Request) -> web.Response:
        exposition = asked_for(request.headers.get("Accept", ""))
        return web.Response(body=metrics(exposition), headers={"Content-Type": exposition.value})

    async def get_status(_: web.Request) -> web.Response:
        return json_response(status())

    app = web.Application()
    app.add_routes([web.get("/metrics", get_metrics), web.get("/status", get_status), web.get("/healthz", _get_health)])
    async with http.serving(app, host, port) as address:
        yield int(address.rpartition(":")[2])


async def _get_health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


@contextlib.asynccontextmanager
async def resting(host: str, port: int, metrics: Callable[[Exposition], str | None]) -> AsyncIterator[None]:
    """Serve health and the last metrics while there is no run to verify."""

    async def get_metrics(request: web.Request) -> web.Response:
        exposition = asked_for(request.headers.get("Accept", ""))
        return web.Response(body=(metrics(exposition) or "").encode(), headers={"Content-Type": exposition.value})

    app = web.Application()
    app.add_routes([web.get("/metrics", get_metrics), web.get("/healthz", _get_health)])
    async with http.serving(app, host, port):
        yield
