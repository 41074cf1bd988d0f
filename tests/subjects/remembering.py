# /// script
# dependencies = []
#
# [tool.soak]
# library = "remembering"
# title = "a correct memory on Redis"
# version = "1"
# needs = ["redis"]
# has-ttl = true
# ///
"""A correct memory, of the standard library only: one RPUSH a message, and every error is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from resp import call
from soak_subject import ChatTurn, Surroundings, serve

PUSH = "redis.call('rpush', KEYS[1], ARGV[1]); if ARGV[2] ~= '' then redis.call('expire', KEYS[1], ARGV[2]) end"


class Remembering:
    """A list for each session."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._url = surroundings.servers["redis"]
        self._ttl = surroundings.ttl_seconds

    def append(self, session: str, message: ChatTurn) -> None:
        row = json.dumps([message.id, message.role, message.content])
        call(self._url, "EVAL", PUSH, 1, session, row, self._ttl or "")

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        rows = call(self._url, "LRANGE", session, -last if last else 0, -1)
        return [ChatTurn(*json.loads(row)) for row in rows]

    def forget(self, session: str) -> None:
        call(self._url, "DEL", session)


if __name__ == "__main__":
    serve(Remembering)
