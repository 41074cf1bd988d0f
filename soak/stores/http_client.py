"""One way to ask a server over HTTP, for all stores that do.

Nothing is ever sent twice: each request that changes something is a POST, which the client does not repeat, and
redirects are not followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import aiohttp
import msgspec

from soak.checker.outcome import NotApplied
from soak.errors import UsageError
from soak.stores.http_contract import HttpAnswerError
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


# The address of a memory behind HTTP: where it is, and the token that opens it.


SCHEMES = ("http", "https")


@dataclass(frozen=True)
class HttpAddress:
    """Without the token this is what may be shown."""

    base: str
    """Ends without a slash."""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.base

    @property
    def is_encrypted(self) -> bool:
        return self.base.startswith("https:")

    def url(self, path: str) -> str:
        return self.base + path

    def with_token(self) -> str:
        """Return it as one text, the way addresses of all servers are handed on: the token stands as a password."""
        if self.token is None:
            return self.base
        parts = urlsplit(self.base)
        return urlunsplit(parts._replace(netloc=f":{quote(self.token, safe='')}@{parts.netloc}"))


def parse_address(text: str) -> HttpAddress:
    """Read `https://[:token@]host[:port][/path]`; raises `UsageError` with what is wrong, without the token."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"the address of the http store is not understood ({error}); {_EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise UsageError(f"the address of the http store is none of a web service; {_EXAMPLE}")
    if parts.username:
        raise UsageError("the http store logs in with a bearer token, not with a user; give it in servers.http_token")
    if parts.query or parts.fragment:
        raise UsageError(f"the address of the http store ends with its path, not with ? or #; {_EXAMPLE}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    token = unquote(parts.password) if parts.password else None
    return HttpAddress(urlunsplit((parts.scheme, where, parts.path.rstrip("/"), "", "")), token)


_EXAMPLE = "write one like https://chat.staging.example/memory"
