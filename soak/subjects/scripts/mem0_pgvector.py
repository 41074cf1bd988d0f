# /// script
# requires-python = ">=3.11"
# dependencies = ["mem0ai==2.2.1", "psycopg[binary,pool]==3.3.8"]
#
# [tool.soak]
# library = "mem0ai"
# title = "mem0 Memory on pgvector, presence only"
# needs = ["postgres"]
# promises = "What is added without inference can be listed by its run; in no order."
#
# [tool.soak.contract]
# order = "none"
# ///
"""mem0: `Memory` on pgvector, by `add(infer=False)` and `get_all`; id and role are metadata. Memories have no order.

The embedder is ours: it makes a vector of nothing but the text, so nobody is asked. The model is never used.
"""

from __future__ import annotations

import hashlib
from typing import Any

from mem0 import Memory
from soak_subject import ChatTurn, Surroundings, serve

DIMENSIONS = 16
MANY = 100_000
"""More than any session has: by default twenty are listed."""


class Embedder:
    """Texts that are the same have the same vector."""

    def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
        digest = hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).digest()
        return [byte / 255 for byte in digest[:DIMENSIONS]]

    def embed_batch(self, texts: list[str], *_: Any, **__: Any) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Memories:
    """A run of mem0 for each session."""

    def __init__(self, surroundings: Surroundings) -> None:
        nobody = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}
        place = {
            "connection_string": surroundings.servers["postgres"],
            "collection_name": "memories",
            "embedding_model_dims": DIMENSIONS,
        }
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "pgvector", "config": place},
                "embedder": {"provider": "openai", "config": {**nobody, "embedding_dims": DIMENSIONS}},
                "llm": {"provider": "openai", "config": nobody},
                "history_db_path": f"{surroundings.folder}/history-{surroundings.process}.db",
            }
        )
        self._memory.embedding_model = Embedder()

    def append(self, session: str, message: ChatTurn) -> None:
        said = [{"role": message.role, "content": message.content}]
        self._memory.add(said, run_id=session, infer=False, metadata={"soak_id": message.id, "soak_role": message.role})

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        found: Any = self._memory.get_all(filters={"run_id": session}, top_k=MANY)["results"]
        said = []
        for one in found:
            about = one.get("metadata") or {}
            said.append(ChatTurn(about.get("soak_id"), about.get("soak_role"), one.get("memory")))
        return said if last is None else said[-last:]

    def forget(self, session: str) -> None:
        self._memory.delete_all(run_id=session)


if __name__ == "__main__":
    serve(Memories)
