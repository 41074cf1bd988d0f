# /// script
# requires-python = ">=3.11"
# dependencies = ["chromadb==1.5.9"]
#
# [tool.soak]
# library = "chromadb"
# title = "chromadb HttpClient with its server, presence only"
# needs = ["chroma"]
# promises = "What is added can be got by its metadata; in no order."
#
# [tool.soak.contract]
# order = "none"
# search = "approximate"
# ///
"""chromadb: one collection of a server, which several processes reach with the documented `HttpClient`."""

from __future__ import annotations

from urllib.parse import urlsplit

import chromadb
from chromadb.config import Settings
from soak_chroma import Searched
from soak_subject import Surroundings, serve


def open_memory(surroundings: Surroundings) -> Searched:
    where = urlsplit(surroundings.servers["chroma"])
    settings = Settings(anonymized_telemetry=False)
    return Searched(chromadb.HttpClient(host=where.hostname or "", port=where.port or 0, settings=settings))


if __name__ == "__main__":
    serve(open_memory)
