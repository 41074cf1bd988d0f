# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "chromadb==0.3.29",
#   "duckdb==0.10.3",
#   "fastapi==0.85.1",
#   "hnswlib==0.8.0",
#   "numpy==1.26.4",
#   "pandas==2.1.4",
#   "pydantic==1.10.27",
# ]
#
# [tool.soak]
# library = "chromadb"
# title = "chromadb 0.3 on DuckDB and Parquet, presence only"
# processes = 1
# keeps-files = true
# promises = "What is added can be got by its metadata; in no order. It is on disk after persist(), or at the end."
#
# [tool.soak.contract]
# order = "none"
# search = "approximate"
# ///
"""chromadb before 0.4: what is added is in memory, and written as a whole by `persist()` or when the client ends.

A release that people lost their vectors with: every call is answered as done, and a process that is killed takes all.
"""

from __future__ import annotations

import threading
from typing import Any

import chromadb
from chromadb.config import Settings
from soak_chroma import Collection
from soak_subject import ChatTurn, Surroundings, serve


class InMemoryUntilTheEnd(Collection):
    """One call at a time, for a connection to DuckDB belongs to one thread at a time."""

    def __init__(self, surroundings: Surroundings) -> None:
        settings = Settings(
            chroma_db_impl="duckdb+parquet",
            persist_directory=f"{surroundings.folder}/chroma",
            anonymized_telemetry=False,
        )
        self._client: Any = chromadb.Client(settings)
        self._lock = threading.Lock()
        super().__init__(self._client)

    def append(self, session: str, message: ChatTurn) -> None:
        with self._lock:
            super().append(session, message)

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        with self._lock:
            return super().history(session, last)

    def forget(self, session: str) -> None:
        with self._lock:
            super().forget(session)

    def close(self) -> None:
        """Do what the documentation asks for at the end."""
        with self._lock:
            self._client.persist()


if __name__ == "__main__":
    serve(InMemoryUntilTheEnd)
