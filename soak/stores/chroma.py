"""A memory in a Chroma server: one collection for each run, asked over its own web interface, without its client.

What one must know before touching it, all measured on Chroma 1.5.9:
- `add` of an id that is there already is answered with 201 and ignored, so a document is never stored twice.
- `get` without a limit returns all that fits the filter, at one moment; pages would be read at several.
- Its index is a graph that is searched about as far as is useful, and a filter makes that less: of 20,000 documents in
  250 sessions, 20 of 3,000 were not found by their own vector with the session as filter, whatever the limit.
- After its folder was wiped the collection is not there (404). Whoever starts a service makes it again, and so is done
  here: an empty collection is an answer, and what is missing in it is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import aiohttp
import msgspec

from soak.checker.contract import Contract, Order, Searches
from soak.checker.message import Garbled, Message, Stored
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.kinds import CHROMA
from soak.stores import http_contract as wire
from soak.stores.embedding import embed
from soak.stores.http_client import HttpClient, RequestNotSentError, in_words
from soak.stores.protocol import StoreContext

COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_FIELDS = ("documents", "metadatas")
_NOT_FOUND = 404


class _Collection(msgspec.Struct, frozen=True):
    id: str


class _Found(msgspec.Struct, frozen=True):
    ids: list[str]
    documents: list[str | None]
    metadatas: list[dict[str, object] | None]


class _Nearest(msgspec.Struct, frozen=True):
    """The same for each vector that was asked for."""

    ids: list[list[str]]
    documents: list[list[str | None]]
    metadatas: list[list[dict[str, object] | None]]


class ChromaStore:
    """Conversations as documents with the session as metadata, for get and for search by meaning."""

    description = "a Chroma server, as documents of one collection, in no order; can be searched"
    needs: ClassVar[tuple[str, ...]] = (CHROMA.name,)
    contract: ClassVar[Contract] = Contract(order=Order.NONE, search=Searches.APPROXIMATE)

    def __init__(self, client: HttpClient, context: StoreContext) -> None:
        self._client = client
        self._name = f"{context.namespace}.soak"
        self._collection = ""

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        if CHROMA.name not in context.servers:
            raise UsageError("no Chroma server is configured; give its address in servers.chroma")
        store = cls(HttpClient(wire.parse_address(context.servers[CHROMA.name]), context), context)
        try:
            await store._find_collection()
        except (RequestNotSentError, wire.HttpAnswerError, aiohttp.ClientError, TimeoutError) as error:
            await store.close()
            raise ServerUnreachableError(
                f"{store._client.address} does not answer as a Chroma server ({in_words(error)}); check the address"
            ) from error
        except BaseException:
            await store.close()
            raise
        return store

    async def append(self, session: str, message: Message) -> None:
        sent = wire.to_wire(message)
        document = {
            "ids": [sent.id],
            "documents": [sent.content],
            "metadatas": [{"session": session, "role": sent.role}],
            "embeddings": [embed(sent.content)],
        }
        wire.expect(*await self._ask("add", document), dict, allowed=(200, 201))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is not None and last <= 0:
            return []
        question = {"where": {"session": session}, "include": _FIELDS}
        found = wire.expect(*await self._ask("get", question), _Found)
        said = _messages(found.ids, found.metadatas, found.documents)
        return said if last is None else said[-last:]

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        """Return those of the session whose vectors are nearest."""
        question = {
            "query_embeddings": [embed(text)],
            "n_results": limit,
            "where": {"session": session},
            "include": _FIELDS,
        }
        found = wire.expect(*await self._ask("query", question), _Nearest)
        return _messages(found.ids[0], found.metadatas[0], found.documents[0])

    async def forget(self, session: str) -> None:
        wire.expect(*await self._ask("delete", {"where": {"session": session}}), dict)

    async def clean_up(self) -> None:
        """Remove the collection of this namespace."""
        status, body = await self._client.ask("DELETE", f"{COLLECTIONS}/{self._name}")
        if status != _NOT_FOUND:
            wire.expect(status, body, dict)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, what: str, question: Mapping[str, object]) -> tuple[int, bytes]:
        """Ask the collection; one that is gone is made again, and nothing was changed until then."""
        status, body = await self._client.post(f"{COLLECTIONS}/{self._collection}/{what}", question)
        if status != _NOT_FOUND:
            return status, body
        await self._find_collection()
        return await self._client.post(f"{COLLECTIONS}/{self._collection}/{what}", question)

    async def _find_collection(self) -> None:
        status, body = await self._client.post(COLLECTIONS, {"name": self._name, "get_or_create": True})
        self._collection = wire.expect(status, body, _Collection).id


def _messages(
    ids: Sequence[str], metadatas: Sequence[dict[str, object] | None], documents: Sequence[str | None]
) -> list[Stored]:
    return [_message(*row) for row in zip(ids, metadatas, documents, strict=True)]


def _message(name: str, about: dict[str, object] | None, text: str | None) -> Stored:
    """Decode a document as a message; anything else is kept as it came."""
    try:
        return wire.named(wire.Wire(id=name, role=str((about or {})["role"]), content=_text(text)))
    except (ValueError, KeyError, TypeError) as error:
        return Garbled(raw=msgspec.json.encode([name, about, text]), reason=f"this is no message: {error}")


def _text(document: str | None) -> str:
    if document is None:
        raise ValueError("it has no document")
    return document
