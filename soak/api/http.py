"""What all our HTTP servers share: JSON answers, refusals of other sites, listening until the block ends."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from aiohttp import web

from soak.errors import ExitCode, UsageError

SHUTDOWN_SECONDS_MAX = 2.0
_SAME_SITE = frozenset({"same-origin", "none"})


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=encode_json(value), status=status, headers=headers, content_type="application/json")


def encode_json(value: object) -> bytes:
    """Encode a value. A lone surrogate is no text, but a store may hold one: it is written as its escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def error(status: int, text: str, code: ExitCode = ExitCode.USAGE) -> web.Response:
    # It may quote what was sent, which need not be text.
    printable = text.encode("utf-8", "backslashreplace").decode()
    return json_response({"error": printable, "exit_code": int(code)}, status)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_literal(host: str) -> bool:
    """Whether a Host header names this machine in a way that nobody can redirect: an address, or localhost."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_cross_site(request: web.Request) -> bool:
    """Whether a browser says that a page of another site sent this."""
    origin = request.headers.get("Origin")
    is_elsewhere = origin is not None and origin.partition("://")[2] != request.host
    return is_elsewhere or request.headers.get("Sec-Fetch-Site", "none") not in _SAME_SITE


def cannot_listen(host: str, port: int, problem: OSError) -> UsageError:
    """Say in one line why the address cannot be used, and what to choose instead."""
    if problem.errno == errno.EADDRINUSE:
        return UsageError(f"port {port} on {host} is taken; choose another with --port (0: any free one)")
    reason = problem.strerror or str(problem)
    return UsageError(f"cannot listen on {host} port {port} ({reason}); choose others with --host and --port")


def address_of(bound: tuple[Any, ...]) -> str:
    """Return the URL of a bound socket."""
    host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return f"http://{host}:{bound[1]}"


@contextlib.asynccontextmanager
async def serving(
    application: web.Application, host: str, port: int, *, shutdown_seconds: float = SHUTDOWN_SECONDS_MAX
) -> AsyncIterator[str]:
    """Serve while the block lasts; yields the address. Raises `UsageError` where it cannot listen.

    At the end, requests under way have `shutdown_seconds` to finish. Signals are left to the caller.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=shutdown_seconds)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as problem:
            raise cannot_listen(host, port, problem) from None
        yield address_of(runner.addresses[0])
    finally:
        await runner.cleanup()
