"""Servers that restart by themselves: noticed by their identity, recorded in the ledger as faults that are not ours.

The window is written exactly once: its name is made of the server and of what it is now, so that a verifier that was
restarted, or another one, gives it the same name, and the second record is dropped where it is read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from soak.checker.faults import Excuse, FaultWindow
from soak.checker.telemetry import Identity, Restart, ServerSample, identity_of, restart_between, unexplained
from soak.contracts.drift import Event, ServerRecord
from soak.errors import SoakError
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal
from soak.verifier.state import SERVER_EVENTS_KEPT, State

_log = structlog.get_logger()

ON_ITS_WAY_SECONDS = 0.2
"""Whoever has seen a server die writes that down at once; this is how long it may take to get there."""
BY_ITSELF = frozenset({"crash", "failover"})
"""What an unplanned window says of a server that restarted by itself. One that went down with its daemon did not."""


class RestartWatch:
    """Holds each sample of a server against the one before, and records a restart that nobody has announced."""

    def __init__(self, state: State, journal: RunJournal, caught_up: Callable[[], Awaitable[bool]]) -> None:
        self._state = state
        self._journal = journal
        self._caught_up = caught_up

    async def take(self, sample: ServerSample, asked: int) -> None:
        """Take in who answered; what this changes is in the ledger, and read back, before the sample counts."""
        now = identity_of(sample.telemetry)
        if now is None:
            return
        record = self._state.tally.servers.setdefault(sample.server, ServerRecord())
        if record.identity is not None:
            restart = restart_between(record.identity, record.identity_seen, sample)
            if restart is not None and not await self._is_recorded(restart):
                return  # the next sample shows it again
        record.identity = _more_complete(now, record.identity)
        record.identity_seen = asked
        self._state.faults.note_sample(sample.server, asked)

    async def _is_recorded(self, restart: Restart) -> bool:
        """Make sure that a restart is on record, as a fault or as its own; False if that is not possible now."""
        if self._unexplained(restart) is None:
            return True
        await asyncio.sleep(ON_ITS_WAY_SECONDS)
        if not await self._caught_up():
            return False
        left = self._unexplained(restart)
        if left is None:
            return True
        try:
            await self._journal.faults(*phases_of(left))
        except SoakError as error:
            _log.warning("restart_not_recorded", server=restart.server, error=str(error))
            return False
        _log.warning("server_restarted_unexpectedly", server=restart.server, kind=restart.kind, fault=restart.fault)
        return await self._caught_up()

    def _unexplained(self, restart: Restart) -> Restart | None:
        faults = self._state.faults
        return None if restart.fault in faults else unexplained(restart, faults.values())


def phases_of(restart: Restart) -> tuple[FaultPhase, FaultPhase]:
    """Return the records of a restart: from when it may have been gone until the new one was there."""

    def phase(name: str, at: int) -> FaultPhase:
        return FaultPhase(
            fault=restart.fault,
            kind=restart.kind,
            target=restart.server,
            phase=name,
            at=at,
            excuses=restart.excuses,
            planned=False,
        )

    return phase("start", restart.gone), phase("end", restart.back)


def note_end(state: State, window: FaultWindow) -> None:
    """Count a fault that is over, and tell of it where nobody has planned it."""
    # A server that went down with its daemon may have been killed, for all we know.
    kind = window.kind if window.planned else "failover" if window.kind == "failover" else "crash"
    counts = state.tally.faults_tried if window.excuses is Excuse.NOTHING else state.tally.recoveries_tried
    counts[kind] = counts.get(kind, 0) + 1
    _note_restart(state, window)


def _note_restart(state: State, window: FaultWindow) -> None:
    """Tell of a server that restarted by itself, once its window has ended; not of one that a fault of ours broke."""
    if window.planned or window.kind not in BY_ITSELF or window.ended is None:
        return
    if any(one.planned and one.target == window.target and _overlap(one, window) for one in state.faults.values()):
        return
    counts = state.tally.unexpected_restarts
    counts[window.target] = counts.get(window.target, 0) + 1
    ended_seconds_ago = time.monotonic_ns() / 1e9 - window.ended / 1e6
    event = Event(
        at_wall_seconds=time.time() - ended_seconds_ago, server=window.target, what="restart", text=_told(window)
    )
    state.tally.events.append(event)
    del state.tally.events[:-SERVER_EVENTS_KEPT]


def _told(window: FaultWindow) -> str:
    seconds = ((window.ended or window.started) - window.started) / 1e6
    if window.kind == "failover":
        what = f"another server answers as {window.target} since at most {seconds:.1f}s"
    else:
        what = f"{window.target} restarted by itself, it was gone for at most {seconds:.1f}s"
    return f"{what} ({window.kind}, not ours); what its contract lets a {window.kind} take is tolerated"


def _overlap(one: FaultWindow, other: FaultWindow) -> bool:
    begins_in_time = other.ended is None or one.started <= other.ended
    return begins_in_time and (one.ended is None or one.ended >= other.started)


def _more_complete(now: Identity, before: Identity | None) -> Identity:
    """Keep what is known of the same life where the latest sample tells less."""
    if before is None or now.workers or now.process != before.process:
        return now
    return before
