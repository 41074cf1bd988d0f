"""A PostgreSQL that restarts within itself: one of its processes died, all others were ended, and its log was replayed.

Its first process lives through that, so whoever watches over the server sees nothing. To what it had acknowledged it is
a crash like any other: where commits do not wait for the disk, their tail is gone. Only the server's own log tells.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from soak.daemon.heartbeat import now_us
from soak.faults.fault import process_of
from soak.testbed.postgres import PostgresServer
from soak.testbed.server import Server, ServerEvent

POLL_SECONDS = 0.1
READ_BYTES_MAX = 2**20
LINE_BYTES_MAX = 2**13
"""Of a line that is longer, such as the text of a statement, the rest is for nobody here."""
_DIED = b"terminating any other active server processes"
_BACK = re.compile(rb"database system is ready to accept (?:read[- ]only )?connections")
"""A replica is ready to be read only."""


class LogFollower:
    """Reads what is added to the log of one server."""

    def __init__(self, path: Path) -> None:
        """Begin at the end of what is there."""
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def new_lines(self) -> list[bytes]:
        """Return the lines that were finished since, as far as one look takes in."""
        try:
            with self._path.open("rb") as log:
                if log.seek(0, 2) < self._offset:
                    self._offset, self._rest = 0, b""  # it was begun anew
                log.seek(self._offset)
                added = log.read(READ_BYTES_MAX)
        except OSError:
            return []
        self._offset += len(added)
        *lines, rest = (self._rest + added).split(b"\n")
        self._rest = rest[-LINE_BYTES_MAX:]
        return lines


async def tell_inner_restarts(servers: Mapping[str, Server], on_event: Callable[[ServerEvent], None]) -> None:
    """Tell of deaths and returns that no supervisor sees, until cancelled."""
    logs = {
        kind: LogFollower(server.log_path)
        for kind, server in servers.items()
        if isinstance(server, PostgresServer) and process_of(server) is not None
    }
    last_look = now_us()
    while logs:
        await asyncio.sleep(POLL_SECONDS)
        now = now_us()
        for kind, log in logs.items():
            for event in events_in(log.new_lines(), kind, since=last_look, now=now):
                on_event(event)
        last_look = now


def events_in(lines: list[bytes], kind: str, *, since: int, now: int) -> list[ServerEvent]:
    """Return what happened between two looks at a log.

    Its times are not asked: the server's clock may be one that was set by a fault. It died after the look before, and
    was back before this one.
    """
    events = []
    for line in lines:
        if _DIED in line:
            told = "one of its processes died, and it restarts within itself"
            events.append(ServerEvent(kind=kind, what="died", at_us=since, detail=told))
        elif _BACK.search(line):
            events.append(ServerEvent(kind=kind, what="restarted", at_us=now, detail="within itself"))
    return events
