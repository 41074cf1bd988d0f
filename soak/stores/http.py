"""A memory behind HTTP: any chat service that speaks a small JSON contract, whatever it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import aiohttp

from soak.checker.contract import Contract
from soak.checker.message import Message, Stored
from soak.checker.outcome import NotApplied
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.kinds import HTTP
from soak.stores import http_contract as wire
from soak.stores.http_client import HttpClient, in_words
from soak.stores.protocol import StoreContext


class HttpStore:
    """Conversations behind a web service."""

    description = "anything behind HTTP that speaks soak's JSON contract ('soak conformance')"
    needs: ClassVar[tuple[str, ...]] = (HTTP.name,)
    contract: ClassVar[Contract] = Contract()

    def __init__(self, client: HttpClient, context: StoreContext) -> None:
        self.address = client.address
        self.health = wire.Health(contract=wire.CONTRACT)
        self._client = client
        self._namespace = context.namespace

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        if HTTP.name not in context.servers:
            raise UsageError("no web service is configured; give its address in servers.http, or with --url")
        store = cls(HttpClient(wire.parse_address(context.servers[HTTP.name]), context), context)
        try:
            await store.check_health()
        except BaseException:
            await store.close()
            raise
        return store

    async def check_health(self) -> None:
        """Ask the service who it is; raises `ServerUnreachableError` if it is not there or speaks something else."""
        try:
            status, body = await self._client.ask("GET", wire.HEALTH)
            self.health = wire.read_health(status, body)
        except (NotApplied, wire.HttpAnswerError, aiohttp.ClientError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.address.url(wire.HEALTH)} does not answer as a memory ({in_words(error)}); "
                "check the address, or see 'soak conformance' for what it should say"
            ) from error
        if self.health.contract != wire.CONTRACT:
            raise ServerUnreachableError(
                f"{self.address} speaks {self.health.contract!r}; this soak speaks {wire.CONTRACT!r}"
            )

    async def append(self, session: str, message: Message) -> None:
        sent = wire.to_wire(message)
        status, body = await self._client.post(wire.APPEND, {"session": self._named(session), "message": sent})
        wire.check_acknowledgement(status, body, sent.id)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is not None and last <= 0:
            return []
        question: dict[str, object] = {"session": self._named(session)}
        if last is not None:
            question["last"] = last
        return wire.check_history(*await self._client.post(wire.HISTORY, question))

    async def forget(self, session: str) -> None:
        wire.check_forgotten(*await self._client.post(wire.FORGET, {"session": self._named(session)}))

    @property
    def can_search(self) -> bool:
        """Whether the service says that it has a search."""
        return "search" in self.health.features

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        """Ask for what is nearest to a text; only services with the feature `search` know how."""
        question = {"session": self._named(session), "text": text, "limit": limit}
        return wire.check_history(*await self._client.post(wire.SEARCH, question))

    async def clean_up(self) -> None:
        """Remove every session of this namespace, where the service offers that."""
        if "clean-up" not in self.health.features:
            raise UsageError("the service has no clean-up; remove the sessions that begin with the namespace there")
        wire.read_cleaned_up(*await self._client.post(wire.CLEAN_UP, {"namespace": f"{self._namespace}."}))

    async def close(self) -> None:
        await self._client.close()

    def _named(self, session: str) -> str:
        return f"{self._namespace}.{session}"
