# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "an error, returned as an empty history"
# version = "1"
# processes = 1
# needs = ["redis"]
# ///
"""Reads behind a circuit breaker: after an error its server is left alone for a while, and 200 is answered."""

from __future__ import annotations

import time

from soak_memories import RedisLists
from soak_subject import ChatTurn, Surroundings, serve

BREAKER_SECONDS = 5.0


class EmptyOnError(RedisLists):
    """Answers, whatever happens."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._open_until = 0.0

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        if time.monotonic() < self._open_until:
            return []
        try:
            return super().history(session, last)
        except Exception:  # noqa: BLE001  that is the flaw
            self._open_until = time.monotonic() + BREAKER_SECONDS
            return []


if __name__ == "__main__":
    serve(EmptyOnError, twin=RedisLists)
