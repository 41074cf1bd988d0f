"""Notices when a replica has caught up after a fault: by position in the log, not by what it says of its lag."""

from __future__ import annotations

from soak.checker.faults import FaultHistory
from soak.checker.telemetry import ServerSample
from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA

PRIMARY, REPLICA = POSTGRES.name, POSTGRES_REPLICA.name
_POSITION = "wal_bytes"


class CatchingUp:
    """Compares where the primary was after a fault with where its replica is."""

    def __init__(self, faults: FaultHistory) -> None:
        self._faults = faults
        self._primary: tuple[int, float] | None = None
        """When the primary was last sampled, and how much it had written to its log by then."""

    def take(self, sample: ServerSample) -> None:
        """Take in what a server says of itself."""
        position = sample.telemetry.get(_POSITION)
        if position is None:
            return
        if sample.server == PRIMARY:
            self._primary = (sample.at, float(position))
        elif sample.server == REPLICA and self._primary is not None:
            at, written = self._primary
            for window in self._faults.not_caught_up((PRIMARY, REPLICA), sample.at):
                if window.ended is not None and at >= window.ended and float(position) >= written:
                    window.caught_up = sample.at
