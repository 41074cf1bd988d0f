# /// script
# dependencies = []
#
# [tool.soak]
# library = "deadly"
# title = "a memory whose server dies by itself"
# version = "1"
# needs = ["redis"]
# ///
"""A memory that ends its server at the fifth message, and keeps everything it says that it keeps."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from resp import call
from soak_subject import ChatTurn, Surroundings, serve

DEADLY = 5


class Deadly:
    """A list for each session; the server ends by a command, as if something had ended it."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._url = surroundings.servers["redis"]

    def append(self, session: str, message: ChatTurn) -> None:
        said = call(self._url, "RPUSH", session, json.dumps([message.id, message.role, message.content]))
        if said == DEADLY:
            with contextlib.suppress(ConnectionError):
                call(self._url, "SHUTDOWN", "NOSAVE")

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        rows = call(self._url, "LRANGE", session, -last if last else 0, -1)
        return [ChatTurn(*json.loads(row)) for row in rows]

    def forget(self, session: str) -> None:
        call(self._url, "DEL", session)


if __name__ == "__main__":
    serve(Deadly)
