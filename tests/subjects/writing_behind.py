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
"""What is acknowledged waits in the process for a second. A process that is asked to end writes it first."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from resp import call
from soak_subject import ChatTurn, Surroundings, serve

WAIT_SECONDS = 1.0
POLL_SECONDS = 0.05


class WritingBehind:
    """A list for each session, and one in memory of what is not there yet."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._url = surroundings.servers["redis"]
        self._waiting: list[tuple[float, str, str]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._flush_forever, daemon=True).start()

    def append(self, session: str, message: ChatTurn) -> None:
        with self._lock:
            due = time.monotonic() + WAIT_SECONDS
            self._waiting.append((due, session, json.dumps([message.id, message.role, message.content])))

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        with self._lock:
            rows = call(self._url, "LRANGE", session, 0, -1)
            rows += [row for _, name, row in self._waiting if name == session]
        said = [ChatTurn(*json.loads(row)) for row in rows]
        return said if last is None else said[-last:]

    def forget(self, session: str) -> None:
        with self._lock:
            self._waiting = [one for one in self._waiting if one[1] != session]
            call(self._url, "DEL", session)

    def close(self) -> None:
        self._flush(float("inf"))

    def _flush_forever(self) -> None:
        while True:
            time.sleep(POLL_SECONDS)
            self._flush(time.monotonic())

    def _flush(self, until: float) -> None:
        with self._lock:
            while self._waiting and self._waiting[0][0] <= until:
                _, session, row = self._waiting[0]
                call(self._url, "RPUSH", session, row)
                del self._waiting[0]


if __name__ == "__main__":
    serve(WritingBehind)
