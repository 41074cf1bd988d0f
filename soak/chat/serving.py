"""Listening, until asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

from soak.daemon.http import cannot_listen
from soak.tasks import end_tasks

BACKLOG = 512
END_SECONDS_MAX = 3
"""For answers that are being written when it is asked to stop."""
START_POLL_SECONDS = 0.01


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever started us: a server that raises them again ends more than itself."""
        yield


@contextlib.asynccontextmanager
async def serving(application: ASGIApp, host: str, port: int) -> AsyncIterator[str]:
    """Serve as long as the block lasts; gives the address. Raises `UsageError` where nobody can listen."""
    listener = _listen(host, port)
    config = uvicorn.Config(
        application,
        http="h11",
        ws="none",
        lifespan="on",
        loop="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=END_SECONDS_MAX,
        backlog=BACKLOG,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110  it has no event to wait for
            await asyncio.sleep(START_POLL_SECONDS)
        bound = listener.getsockname()
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        yield f"http://{shown}:{bound[1]}"
    finally:
        server.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * END_SECONDS_MAX):
                await asyncio.wait([task])
        await end_tasks([task])
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise cannot_listen(host, port, error) from None
