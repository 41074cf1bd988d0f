# /// script
# dependencies = []
#
# [tool.soak]
# library = "forgetful"
# title = "a memory with everything wrong"
# version = "1"
# needs = ["redis"]
# has-ttl = true
# ///
"""A memory that makes every mistake there is a trial for. Each has a name in a comment."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from resp import call
from soak_subject import ChatTurn, Surroundings, serve

CAP = 1_000
BEHIND = 8
REPLAYED = 5


class Forgetful:
    """The whole history as one value."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._url = surroundings.servers["redis"]
        self._ttl = surroundings.ttl_seconds
        self._pending: dict[str, list[list[Any]]] = {}
        self._sent: dict[str, list[list[Any]]] = {}

    def append(self, session: str, message: ChatTurn) -> None:
        key = session.lower()  # colliding-sessions: names are folded
        text = message.content.replace("\x00", "").encode("latin-1", "replace").decode("latin-1")  # hard-text
        # process-crash: in every other session what is acknowledged waits in the memory of the process.
        row = [time.time(), message.id, message.role, text]
        self._pending.setdefault(key, []).append(row)
        is_behind = key[-1:] in {"1", "3", "5", "7"}
        if not is_behind or len(self._pending[key]) >= BEHIND:
            self._flush(key)

    def _flush(self, key: str) -> None:
        rows = self._pending.pop(key)
        try:
            self._write(key, rows)
        except OSError:
            try:
                # dropped-replies, server-crash, power-cut: after an error the last few are sent once more.
                time.sleep(0.05)
                self._write(key, [*self._sent.get(key, [])[-REPLAYED:], *rows])
            except OSError:
                pass  # outage-writes: the error is swallowed
        self._sent[key] = [*self._sent.get(key, []), *rows][-REPLAYED:]

    def _write(self, key: str, rows: list[list[Any]]) -> None:
        # concurrent-writers, growing-prefix: everything is read, and written back.
        told = call(self._url, "GET", key)
        said = json.loads(told) if told else []
        for row in rows:
            if not said or said[-1][3] != row[3]:  # identical-turns: the same word again is left out
                said.append(row)
        said.sort(key=lambda one: one[0])  # clock-skew: by the clock of whoever wrote it
        # active-ttl: the time to live is set once, when the session begins.
        lifetime = ["KEEPTTL"] if told else (["EX", self._ttl] if self._ttl else [])
        call(self._url, "SET", key, json.dumps(said), *lifetime)

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        key = session.lower()
        try:
            told = call(self._url, "GET", key)
        except OSError:
            return []  # outage-reads: no answer is taken for no memory
        said = [*(json.loads(told) if told else [])[:CAP], *self._pending.get(key, [])]  # long-session: a cap
        return [ChatTurn(*row[1:]) for row in (said if last is None else said[-last:])]

    def forget(self, session: str) -> None:
        """forgetting: it is only said so."""


if __name__ == "__main__":
    serve(Forgetful)
