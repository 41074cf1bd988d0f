"""The verifier's own page: metrics, status, health. On loopback unless told otherwise."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from aiohttp import web

from soak.errors import UsageError
from soak.exposition import Exposition, asked_for
from soak.verifier.result import VerifierStatus


@contextlib.asynccontextmanager
async def serving(
    host: str, port: int, *, metrics: Callable[[Exposition], bytes], status: Callable[[], VerifierStatus]
) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port, which matters when any free one was asked for."""

    async def get_metrics(request: web.Request) -> web.Response:
        exposition = asked_for(request.headers.get("Accept", ""))
        return web.Response(body=metrics(exposition), headers={"Content-Type": exposition.value})

    async def get_status(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(status()), content_type="application/json")

    async def get_health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", get_metrics), web.get("/status", get_status), web.get("/healthz", get_health)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise UsageError(
            f"port {port} on {host} {reason}; choose another with --port, or 0 for any free one"
        ) from error
    try:
        addresses: list[Any] = list(runner.addresses)
        yield int(addresses[0][1])
    finally:
        await runner.cleanup()
