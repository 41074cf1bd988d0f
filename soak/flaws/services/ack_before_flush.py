# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "200 OK, and then the writing"
# version = "1"
# processes = 1
# keeps-files = true
# ///
"""Collects messages in memory, answers at once, and writes them a little later."""

from __future__ import annotations

import threading
import time

from soak_memories import SqliteRows
from soak_subject import ChatTurn, Surroundings, serve

WAIT_SECONDS = 1.0
POLL_SECONDS = 0.05


class AckBeforeFlush(SqliteRows):
    """Has a buffer and a background thread: a p99 to be proud of."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._waiting: list[tuple[float, str, ChatTurn]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._flush_forever, daemon=True).start()

    def append(self, session: str, message: ChatTurn) -> None:
        with self._lock:
            self._waiting.append((time.monotonic(), session, message))

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        with self._lock:
            said = super().history(session, None)
            said += [message for _, name, message in self._waiting if name == session]
        return said if last is None else said[-last:]

    def close(self) -> None:
        """Write the rest: nothing is lost by a process that is asked to end."""
        self._flush(older_than=time.monotonic())

    def _flush_forever(self) -> None:
        while True:
            time.sleep(POLL_SECONDS)
            self._flush(older_than=time.monotonic() - WAIT_SECONDS)

    def _flush(self, older_than: float) -> None:
        with self._lock:
            while self._waiting and self._waiting[0][0] <= older_than:
                _, session, message = self._waiting[0]
                super().append(session, message)
                del self._waiting[0]


class FlushBeforeAck(SqliteRows):
    """Answers when the row is committed."""


if __name__ == "__main__":
    serve(AckBeforeFlush, twin=FlushBeforeAck)
