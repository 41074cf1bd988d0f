"""The HTTP server of the daemon: /metrics, /healthz, /readyz, /status, and the pages it is given."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Protocol

from aiohttp import web

from soak.api.connections import Connections
from soak.api.http import SHUTDOWN_SECONDS_MAX, address_of, cannot_listen, error, is_literal, is_loopback, json_response
from soak.api.status import SoakStatus
from soak.daemon.consumption import Use
from soak.daemon.metrics import DaemonMetrics
from soak.exposition import Exposition, asked_for
from soak.settings import HttpSettings

SCRAPER_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
"""Prometheus and its kin send it; a browser or curl does not, and is not waited for."""
INTERVAL_SECONDS_FIRST = 15.0
"""How often somebody may come who has come once."""
INTERVAL_SECONDS_MAX = 60.0
MISSED_MAX = 3
"""Who has not come for so many intervals does not come any more."""
MARGIN_SECONDS = 2.0


class Scrapes:
    """Remembers the last two scrapes, and lets one wait for the next."""

    def __init__(self) -> None:
        self._last_seconds: float | None = None
        self._interval_seconds = INTERVAL_SECONDS_FIRST
        self._is_listening = False
        self._heard = asyncio.Event()

    @contextlib.contextmanager
    def one(self, headers: Mapping[str, str]) -> Iterator[None]:
        """Answer a request; a client that asked before the end was near does not count as informed of it."""
        asked_in_time = self._is_listening
        yield
        if SCRAPER_HEADER not in headers:
            return
        now = time.monotonic()
        if self._last_seconds is not None:
            self._interval_seconds = min(now - self._last_seconds, INTERVAL_SECONDS_MAX)
        self._last_seconds = now
        if asked_in_time:
            self._heard.set()

    def expected_seconds(self) -> float:
        """Return how long the next scrape may take to come; 0 if none is to be expected."""
        if self._last_seconds is None:
            return 0.0
        since = time.monotonic() - self._last_seconds
        if since > MISSED_MAX * self._interval_seconds + MARGIN_SECONDS:
            return 0.0
        return 2 * self._interval_seconds + MARGIN_SECONDS

    async def until_next(self) -> bool:
        """Wait until somebody has been answered who asks from now on; returns whether that happened."""
        self._is_listening = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), self.expected_seconds())
        return self._heard.is_set()


class StatusSource(Protocol):
    """Whoever knows how the soak is."""

    async def snapshot(self) -> SoakStatus: ...

    async def verifier_metrics(self, exposition: Exposition) -> str | None: ...

    def use(self) -> Use: ...


class HttpServer:
    """Listens until it is closed; it answers from the first moment, also while the servers still start."""

    def __init__(self, settings: HttpSettings, source: StatusSource, routes: Sequence[web.RouteDef] = ()) -> None:
        self._settings = settings
        self._source = source
        self._metrics = DaemonMetrics()
        self.scrapes = Scrapes()
        self._routes = routes
        self._connections = Connections()
        self._server: asyncio.Server | None = None
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS_MAX)
        self.address = ""

    async def start(self) -> None:
        host, port = self._settings.host, self._settings.port
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101  it was just set up
        self._connections.watch(self._runner.server)
        try:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._connections.accept, host, port, reuse_address=True)
        except OSError as problem:
            await self.close()
            raise cannot_listen(host, port, problem) from None
        self.address = address_of(self._server.sockets[0].getsockname())

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._connections.close()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        guards = [refuse_names] if is_loopback(self._settings.host) else []
        application = web.Application(middlewares=[self._connections.middleware(), *guards])
        pages: dict[str, Callable[[web.Request], Awaitable[web.Response]]] = {
            "/metrics": self._metrics_page,
            "/healthz": _healthz,
            "/readyz": self._readyz,
            "/status": self._status,
        }
        for path, answer in pages.items():
            application.router.add_get(path, answer)
        application.add_routes(self._routes)
        return application

    async def _metrics_page(self, request: web.Request) -> web.Response:
        with self.scrapes.one(request.headers):
            exposition = asked_for(request.headers.get("Accept", ""))
            text = await self.metrics_text(exposition)
            return web.Response(body=text.encode(), headers={"Content-Type": exposition.value})

    async def metrics_text(self, exposition: Exposition = Exposition.TEXT) -> str:
        """Return what /metrics shows now."""
        verifier_text = await self._source.verifier_metrics(exposition)
        return self._metrics.text(await self._source.snapshot(), verifier_text, self._source.use(), exposition)

    async def _readyz(self, _request: web.Request) -> web.Response:
        missing = (await self._source.snapshot()).not_ready
        return json_response({"ready": not missing, "reasons": missing}, status=503 if missing else 200)

    async def _status(self, _request: web.Request) -> web.Response:
        return json_response(await self._source.snapshot())


@web.middleware
async def refuse_names(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer only under an address: a name that a stranger has pointed at this machine would let his page read us."""
    if not is_literal(request.host):
        return error(403, "use the address 127.0.0.1, or localhost")
    return await handler(request)


async def _healthz(_request: web.Request) -> web.Response:
    return json_response({"alive": True})
