# /// script
# requires-python = ">=3.11"
# dependencies = ["chromadb==1.5.9"]
#
# [tool.soak]
# library = "chromadb"
# title = "chromadb PersistentClient, two processes on one path"
# keeps-files = true
# promises = "Nothing: the documentation says that it is safe for threads, and not for processes."
#
# [tool.soak.contract]
# order = "none"
# ///
"""chromadb: what happens where two workers of a web server each open a `PersistentClient` on the same folder."""

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
