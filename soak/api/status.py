"""The status of a running soak: one typed value for `/status`, the page, the terminal, metrics and the service manager.

`soak/api/status.schema.json` is its JSON schema; `python -m soak.report.schema` writes it.
"""

from __future__ import annotations

import msgspec

from soak.store_errors import ErrorNature
from soak.verifier.result import Totals, VerifierStatus

__all__ = ["NO_TOTALS", "ChildStatus", "InjectedFault", "NextFault", "ServerStatus", "SoakStatus", "VerifierStatus"]

NO_TOTALS = Totals(
    attempts={},
    acknowledged=0,
    verified=0,
    released=0,
    violations=0,
    tolerated=0,
    unverifiable=0,
    indeterminate=0,
    reads=0,
    messages_read=0,
    sessions=0,
)
"""What is known before the verifier answers."""


class ChildStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A supervised process."""

    name: str
    state: str
    pid: int | None
    restarts: int
    last_exit: int | None


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the run; the state of a given server is not known."""

    kind: str
    embedded: bool
    state: str
    pid: int | None
    restarts: int
    """After deaths that nobody asked for."""
    planned_restarts: int = 0
    """After faults."""
    address: str
    """Without user and password."""

    @property
    def is_up(self) -> bool:
        # The process of a given server is not watched here; load and verifier notice its trouble.
        return not self.embedded or self.state == "running"


class InjectedFault(msgspec.Struct, kw_only=True):
    """A fault of the schedule or by hand, active or past. Times are of the wall clock."""

    name: str
    target: str
    by: str
    """`schedule` or `hand`; `planned` or `unplanned` if only the verifier knows of it."""
    began_wall_seconds: float
    hold_seconds: float
    parameters: dict[str, str] = {}
    """How it is set, as people write it."""
    state: str = "active"
    """`active`, `healed` or `failed`; of a run that is over also `cut off`."""
    fault: str = ""
    """Identity of its window in the ledger, once it is over."""
    lasted_seconds: float | None = None
    reason: str = ""


class NextFault(msgspec.Struct, frozen=True, kw_only=True):
    """The next fault of the schedule."""

    name: str
    target: str
    hold_seconds: float
    parameters: dict[str, str] = {}
    in_seconds: float
    """Below zero if it is due and waits for another fault to end."""


class SoakStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a soak at one moment."""

    run: str
    phase: str
    """`starting`, `running`, `draining` or `done`; of a past run that gave no verdict `interrupted`."""
    verdict: str
    """So far `violation` or `undecided`; at the end the verdict."""
    stores: list[str]
    seed: str
    """Digits. JavaScript would round a number as large."""
    namespace: str
    data_dir: str
    http_address: str
    uptime_seconds: float
    remaining_seconds: float | None
    children: list[ChildStatus]
    servers: list[ServerStatus]
    faults_active: list[str]
    not_ready: list[str]
    """What is missing; empty while the soak runs as it should."""
    warnings: list[str]
    verifier: VerifierStatus | None
    """None while the verifier does not answer."""
    faults_recent: list[InjectedFault] = []
    """Faults of the schedule and by hand, the latest last."""
    fault_next: NextFault | None = None
    faults_scheduled: int = 0
    """Faults of the schedule that began or did not fit."""
    faults_skipped: int = 0
    """Those that did not fit: earlier ones and the time between them left no room."""
    problems: list[str] = []
    """Why the verdict cannot be a pass."""
    active_seconds: float = 0.0
    """How long the run has been active, over all its daemons."""
    servers_of: dict[str, list[str]] = {}
    """By store: the servers it rests on."""

    @property
    def totals(self) -> Totals:
        """The verifier's totals; zeros while it does not answer."""
        return NO_TOTALS if self.verifier is None else self.verifier.totals

    def store_errors(self) -> list[str]:
        """Return the errors of stores other than unavailability, one line for each."""
        errors = self.verifier.store_errors if self.verifier is not None else []
        return [error.line for error in errors if error.nature is not ErrorNature.UNAVAILABLE]
