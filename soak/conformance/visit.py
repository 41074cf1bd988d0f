"""One visit to a service: sessions of its own, what was said there, and plain questions past the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import msgspec

from soak.checker.message import Message, Stored
from soak.stores.http import HttpStore
from soak.stores.speaking import Speaker


class FindingError(Exception):
    """The service does something else than the contract says: what, and what to do about it."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(found)
        self.found = found
        self.advice = advice


@dataclass(frozen=True)
class Answer:
    """What the service answered to a plain question."""

    status: int
    body: bytes
    content_type: str


class Visit(Speaker):
    """What all checks use."""

    def __init__(self, store: HttpStore, namespace: str, timeout_seconds: float) -> None:
        super().__init__("conformance")
        self.store = store
        self.namespace = namespace
        self._timeout_seconds = timeout_seconds

    async def say(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.store.append(message.session, message)

    async def expect(self, session: str, said: Sequence[Message], *, last: int | None = None, advice: str) -> None:
        """Read the session back; raises `FindingError` with the first difference."""
        wanted = list(said) if last is None else list(said)[-last:]
        read = list(await self.store.history(session, last))
        if read != wanted:
            raise FindingError(difference(wanted, read), advice)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Ask without the store in between, with another token or none."""
        headers = {"Content-Type": content_type} if body is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with (
            asyncio.timeout(self._timeout_seconds),
            aiohttp.request(
                method, self.store.address.url(path), data=body, headers=headers, allow_redirects=False
            ) as answer,
        ):
            return Answer(answer.status, await answer.read(), answer.content_type)

    def question(self, **fields: object) -> bytes:
        return msgspec.json.encode(fields)


def difference(wanted: Sequence[Message], read: Sequence[Stored]) -> str:
    """Say in one line how a read differs from what was said."""
    for number, (one, other) in enumerate(zip(wanted, read, strict=False), start=1):
        if one == other:
            continue
        if isinstance(other, Message):
            if other in wanted:
                return f"message {number} of the history is #{other.seq} of writer {other.writer}, not #{one.seq}"
            return f"message {number} was {_short(one)} and came back as {_short(other)}"
        return f"message {number} of the history is no message: {other.reason}"
    if len(read) < len(wanted):
        return f"{len(wanted)} messages were said and {len(read)} came back"
    return f"{len(wanted)} messages were said and {len(read)} came back, more than there are"


def _short(message: Message) -> str:
    text = ascii(message.content if len(message.content) <= 40 else message.content[:40] + "…")
    return f"{message.role} {text} ({len(message.content)} characters)"
