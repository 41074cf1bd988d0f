"""A memory in one collection of chromadb, with the session and the role as metadata, whatever client it is had from.

The embeddings are made here, of nothing but the text, so nothing has to be downloaded: equal texts have equal vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import chromadb
from chromadb.config import Settings
from soak_subject import ChatTurn, Surroundings

DIMENSIONS = 16


class Collection:
    """The id is the document's own. Documents have no order."""

    def __init__(self, client: Any) -> None:
        self.documents = client.get_or_create_collection("memory", embedding_function=None)

    def append(self, session: str, message: ChatTurn) -> None:
        self.documents.add(
            ids=[message.id],
            documents=[message.content],
            metadatas=[{"session": session, "role": message.role}],
            embeddings=[embedding(message.content)],
        )

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        found = self.documents.get(where={"session": session}, include=["documents", "metadatas"])
        said = _messages(found["ids"], found["metadatas"], found["documents"])
        return said if last is None else said[-last:]

    def forget(self, session: str) -> None:
        self.documents.delete(where={"session": session})


def persistent(surroundings: Surroundings) -> Searched:
    """Open a collection in files, as the documentation of the releases since 0.4 says."""
    settings = Settings(anonymized_telemetry=False)
    return Searched(chromadb.PersistentClient(path=f"{surroundings.folder}/chroma", settings=settings))


class Searched(Collection):
    """The same, asked by meaning, too."""

    def search(self, session: str, text: str, limit: int) -> list[ChatTurn]:
        found = self.documents.query(
            query_embeddings=[embedding(text)],
            n_results=limit,
            where={"session": session},
            include=["documents", "metadatas"],
        )
        return _messages(found["ids"][0], found["metadatas"][0], found["documents"][0])


def embedding(text: str) -> list[float]:
    """Return a vector of a text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return [byte / 255 for byte in digest[:DIMENSIONS]]


def _messages(ids: Iterable[Any], metadatas: Iterable[Any], documents: Iterable[Any]) -> list[ChatTurn]:
    rows = zip(ids, metadatas, documents, strict=True)
    return [ChatTurn(name, about.get("role"), text) for name, about, text in rows]
