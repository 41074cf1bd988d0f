"""One way to ask a server over HTTP, for all stores that do.

Nothing is ever sent twice: each request that changes something is a POST, which the client does not repeat, and
redirects are not followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import aiohttp
import msgspec

from soak.checker.outcome import NotApplied
from soak.stores.http_contract import HttpAddress, HttpAnswerError
from soak.stores.protocol import StoreContext

ANSWER_BYTES_MAX = 256 * 2**20
"""A longer answer is cut off: a history of a hundred thousand messages fits many times."""
KEEP_ALIVE_SECONDS = 4.0
"""Shorter than servers keep a quiet connection: a request on one that is just being closed is of unknown fate."""
CONNECT_SHARE = 0.9
"""The part of an operation's time that may pass before its request is sent; the rest is for the error to arrive."""
_JSON = "application/json"


class RequestNotSentError(NotApplied):
    """The request never left: the service cannot be reached, or no connection was free in time."""

    of_server = True


class HttpClient:
    """Connections to one server."""

    def __init__(self, address: HttpAddress, context: StoreContext) -> None:
        self.address = address
        self._timeout_seconds = context.timeout_seconds
        self._session = _session(address, context)

    async def post(self, path: str, question: Mapping[str, object]) -> tuple[int, bytes]:
        """Send a question as JSON; returns status and body of the answer."""
        try:
            body = msgspec.json.encode(question)
        except UnicodeEncodeError as error:
            raise RequestNotSentError(f"half a character cannot be sent as JSON ({error.reason})") from error
        return await self.ask("POST", path, body)

    async def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Content-Type": _JSON} if body is not None else None
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._session.request(
                    method, self.address.url(path), data=body, headers=headers, allow_redirects=False
                ) as answer,
            ):
                return answer.status, await _whole(answer)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise RequestNotSentError(in_words(error)) from error

    async def close(self) -> None:
        await self._session.close()


def _session(address: HttpAddress, context: StoreContext) -> aiohttp.ClientSession:
    headers = {"Accept": _JSON}
    if address.token is not None:
        headers["Authorization"] = f"Bearer {address.token}"
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=context.connections_max,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            # Made here and not at import, so that SSL_CERT_FILE counts as it is now.
            ssl=ssl.create_default_context() if address.is_encrypted else False,
        ),
        # Waiting for a free connection and connecting are apart from the rest: until then nothing was sent.
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SHARE * context.timeout_seconds),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    body = await answer.content.read(ANSWER_BYTES_MAX)
    parts = [body]
    size = len(body)
    while body:
        body = await answer.content.read(ANSWER_BYTES_MAX)
        parts.append(body)
        size += len(body)
        if size > ANSWER_BYTES_MAX:
            raise HttpAnswerError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def in_words(error: BaseException) -> str:
    """Say in one line what went wrong."""
    text = " ".join(str(error).split())
    return text or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
