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
# search = "approximate"
# ///
"""chromadb: what happens where two workers of a web server each open a `PersistentClient` on the same folder.

As measured: what is added can be got, by every process. Searches go wrong as soon as a process begins with the index
that both have written: documents that are not found by their own vector, and others that are found twice. One process
on a path of its own does neither, under the same load and the same restarts.
"""

from __future__ import annotations

from soak_chroma import persistent
from soak_subject import serve

if __name__ == "__main__":
    serve(persistent)
