# /// script
# dependencies = []
#
# [tool.soak]
# library = "behind"
# title = "a memory on Redis that answers first and writes a little later"
# version = "1"
# needs = ["redis"]
# processes = 1
# ///
"""What is acknowledged waits in the process for up to a second. A process that is asked to end writes it first."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from resp import call
from soak_subject import Message, Surroundings, serve

FLUSH_SECONDS = 1.0


class WritingBehind:
    """A list for each session, and one in memory of what is not there yet."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._url = surroundings.servers["redis"]
        self._waiting: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._flush_forever, daemon=True).start()

    def append(self, session: str, message: Message) -> None:
        with self._lock:
            self._waiting.append((session, json.dumps([message.id, message.role, message.content])))

    def history(self, session: str, last: int | None) -> list[Message]:
        with self._lock:
            rows = call(self._url, "LRANGE", session, 0, -1)
            rows += [row for name, row in self._waiting if name == session]
        said = [Message(*json.loads(row)) for row in rows]
        return said if last is None else said[-last:]

    def forget(self, session: str) -> None:
        with self._lock:
            self._waiting = [(name, row) for name, row in self._waiting if name != session]
            call(self._url, "DEL", session)

    def close(self) -> None:
        self._flush()

    def _flush_forever(self) -> None:
        while True:
            threading.Event().wait(FLUSH_SECONDS)
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            for session, row in self._waiting:
                call(self._url, "RPUSH", session, row)
            self._waiting.clear()


if __name__ == "__main__":
    serve(WritingBehind)
