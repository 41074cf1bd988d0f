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
# search = "approximate"
# ///
"""chromadb: one collection of a `PersistentClient`, in files that one process has for itself."""

from __future__ import annotations

from soak_chroma import persistent
from soak_subject import serve

if __name__ == "__main__":
    serve(persistent)
