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
"""chromadb: one collection of a `PersistentClient`, in files that one process has for itself."""

from __future__ import annotations

import chromadb
from chromadb.config import Settings
from soak_chroma import Searched
from soak_subject import Surroundings, serve


def open_memory(surroundings: Surroundings) -> Searched:
    settings = Settings(anonymized_telemetry=False)
    return Searched(chromadb.PersistentClient(path=f"{surroundings.folder}/chroma", settings=settings))


if __name__ == "__main__":
    serve(open_memory)
