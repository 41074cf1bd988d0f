"""A memory behind HTTP: any chat service that speaks a small JSON contract, whatever it is written in.

Nothing is ever sent twice: each request is a POST, which the client does not repeat, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import ClassVar, Self

import aiohttp
import msgspec

from soak.errors import ServerUnreachableError, UsageError
from soak.model.contract import Contract
from soak.model.message import Message, Stored
from soak.model.outcome import NotApplied
from soak.stores import http_contract as wire
from soak.stores.http_address import HttpAddress, parse_address
from soak.stores.protocol import StoreContext

ANSWER_BYTES_MAX = 256 * 2**20
"""A longer answer is cut off: a history of a hundred thousand messages fits many times."""
KEEP_ALIVE_SECONDS = 4.0
"""Shorter than servers keep a quiet connection: a request on one that is just being closed is of unknown fate."""
CONNECT_SHARE = 0.9
"""Of an operation's time may go by before its request is sent; the rest is for whoever tells that it was not."""
_JSON = "application/json"


class NotSentError(NotApplied):
    """The request never left: the service cannot be reached, or no connection was free in time."""


class HttpStore:
    """Conversations behind a web service."""

    description = "anything behind HTTP that speaks soak's JSON contract ('soak conformance')"
    needs: ClassVar[tuple[str, ...]] = ("http",)
    contract: ClassVar[Contract] = Contract()

    def __init__(self, session: aiohttp.ClientSession, address: HttpAddress, context: StoreContext) -> None:
        self.address = address
        self.health = wire.Health(contract=wire.CONTRACT)
        self._session = session
        self._namespace = context.namespace
        self._timeout_seconds = context.timeout_seconds

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        if "http" not in context.servers:
            raise UsageError("no web service is configured; give its address in servers.http, or with --url")
        address = parse_address(context.servers["http"])
        store = cls(_client(address, context), address, context)
        try:
            await store.check_health()
        except BaseException:
            await store.close()
            raise
        return store

    async def check_health(self) -> None:
        """Ask the service who it is; raises `ServerUnreachableError` if it is not there or speaks something else."""
        try:
            status, body = await self._ask("GET", wire.HEALTH)
            self.health = wire.read_health(status, body)
        except (NotApplied, wire.HttpAnswerError, aiohttp.ClientError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.address.url(wire.HEALTH)} does not answer as a memory ({_words(error)}); "
                "check the address, or see 'soak conformance' for what it should say"
            ) from error
        if self.health.contract != wire.CONTRACT:
            raise ServerUnreachableError(
                f"{self.address} speaks {self.health.contract!r}; this soak speaks {wire.CONTRACT!r}"
            )

    async def append(self, session: str, message: Message) -> None:
        sent = wire.to_wire(message)
        status, body = await self._post(wire.APPEND, {"session": self._named(session), "message": sent})
        wire.check_acknowledgement(status, body, sent.id)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is not None and last <= 0:
            return []
        question: dict[str, object] = {"session": self._named(session)}
        if last is not None:
            question["last"] = last
        return wire.check_history(*await self._post(wire.HISTORY, question))

    async def forget(self, session: str) -> None:
        wire.check_forgotten(*await self._post(wire.FORGET, {"session": self._named(session)}))

    @property
    def can_search(self) -> bool:
        """Whether the service says that it has a search."""
        return "search" in self.health.features

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        """Ask for what is nearest to a text; only services with the feature `search` know how."""
        question = {"session": self._named(session), "text": text, "limit": limit}
        return wire.check_history(*await self._post(wire.SEARCH, question))

    async def clean_up(self) -> None:
        """Remove every session of this namespace, where the service offers that."""
        if "clean-up" not in self.health.features:
            raise UsageError("the service has no clean-up; remove the sessions that begin with the namespace there")
        wire.read_cleaned_up(*await self._post(wire.CLEAN_UP, {"namespace": f"{self._namespace}."}))

    async def close(self) -> None:
        await self._session.close()

    def _named(self, session: str) -> str:
        return f"{self._namespace}.{session}"

    async def _post(self, path: str, question: dict[str, object]) -> tuple[int, bytes]:
        try:
            body = msgspec.json.encode(question)
        except UnicodeEncodeError as error:
            raise NotSentError(f"half a character cannot be sent as JSON ({error.reason})") from error
        return await self._ask("POST", path, body)

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
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
            raise NotSentError(_words(error)) from error


def _client(address: HttpAddress, context: StoreContext) -> aiohttp.ClientSession:
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
            raise wire.HttpAnswerError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
