"""How the soak is at one moment: what `/status` answers and the terminal shows."""

from __future__ import annotations

from typing import Any

import msgspec

from soak.daemon.children import ChildStatus
from soak.daemon.conductor import FaultStory, NextFault
from soak.store_errors import ErrorNature


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is used, and how it is if it was started here."""

    kind: str
    embedded: bool
    state: str
    pid: int | None
    restarts: int
    address: str
    """Without user and password."""

    @property
    def is_up(self) -> bool:
        # How a server that was given fares is seen by load and verifier; nobody here watches its process.
        return not self.embedded or self.state == "running"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a soak."""

    run: str
    phase: str
    """`starting`, `running`, `draining` or `done`."""
    verdict: str
    """The verdict so far: `violation`, or `undecided` as long as none was found; at the end the verdict."""
    stores: list[str]
    seed: int
    namespace: str
    data_dir: str
    http_address: str
    uptime_seconds: float
    remaining_seconds: float | None
    children: list[ChildStatus]
    servers: list[ServerStatus]
    faults_active: list[str]
    not_ready: list[str]
    """What is still missing; empty when the soak is under way."""
    warnings: list[str]
    verifier: dict[str, Any] | None
    """The verifier's own status; none while it does not answer."""
    faults_recent: list[FaultStory] = []
    """Faults that were planned or asked for, the latest last."""
    fault_next: NextFault | None = None
    """What the schedule does next; none: nothing."""
    problems: list[str] = []
    """Those of the warnings that will make the run inconclusive."""
    active_seconds: float = 0.0
    """How long the run has been under way, all its daemons taken together."""

    def total(self, *path: str) -> float:
        """Return one of the verifier's totals; 0 while it is not known."""
        found: Any = (self.verifier or {}).get("totals", {})
        for part in path:
            found = found.get(part, 0) if isinstance(found, dict) else 0
        return float(found) if isinstance(found, int | float) else 0.0

    def store_errors(self) -> list[str]:
        """Return what the stores raised that is no mere unavailability, one line for each kind."""
        errors = (self.verifier or {}).get("store_errors", [])
        return [str(error["line"]) for error in errors if error["nature"] != ErrorNature.UNAVAILABLE.value]

    def gauge(self, name: str) -> float | None:
        found = (self.verifier or {}).get(name)
        return float(found) if isinstance(found, int | float) else None
