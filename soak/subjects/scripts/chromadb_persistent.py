# /// script
# requires-python = ">=3.11"
# dependencies = ["chromadb==1.5.9"]
#
# [tool.soak]
# library = "chromadb"
# title = "chromadb PersistentClient, presence only"
# processes = 1
# keeps-files = true
# promises = "What is added can be got by its metadata; in no order. One process at a time."
#
# [tool.soak.contract]
# order = "none"
# ///
"""chromadb: one collection of a `PersistentClient`, with the session and the role as metadata. Documents have no order.

The embeddings are made here, of nothing but the text, so nothing has to be downloaded.
"""

from __future__ import annotations

import hashlib
from typing import Any

import chromadb
from chromadb.config import Settings
from soak_subject import Message, Surroundings, serve

DIMENSIONS = 16


class Collection:
    """The id is the document's own."""

    def __init__(self, surroundings: Surroundings) -> None:
        settings = Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(path=f"{surroundings.folder}/chroma", settings=settings)
        self._collection = client.get_or_create_collection("memory", embedding_function=None)

    def append(self, session: str, message: Message) -> None:
        self._collection.add(
            ids=[message.id],
            documents=[message.content],
            metadatas=[{"session": session, "role": message.role}],
            embeddings=[_embedding(message.content)],
        )

    def history(self, session: str, last: int | None) -> list[Message]:
        found: Any = self._collection.get(where={"session": session}, include=["documents", "metadatas"])
        rows = zip(found["ids"], found["metadatas"], found["documents"], strict=True)
        said = [Message(name, about.get("role"), text) for name, about, text in rows]
        return said if last is None else said[-last:]

    def forget(self, session: str) -> None:
        self._collection.delete(where={"session": session})


def _embedding(text: str) -> Any:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return [byte / 255 for byte in digest[:DIMENSIONS]]


if __name__ == "__main__":
    serve(Collection)
