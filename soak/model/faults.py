"""Which acknowledged loss a fault excuses: a contiguous tail, no longer than the contract allows."""

from __future__ import annotations

import enum

import msgspec

from soak.model.attempt import Attempt
from soak.model.contract import Contract
from soak.model.outcome import Outcome


class FaultClass(enum.Enum):
    """What a fault does to what was acknowledged and not yet on disk."""

    HARMLESS = "harmless"
    """The server keeps all it was told to: a pause, a slow link, a full disk. What it throws away, by eviction or
    expiry, is for the contract's clauses on those. Where it dies of it, that is a crash with a window of its own."""
    CLEAN = "clean"
    """The process ends in good order, or its data is spoiled or taken away: only what keeps nothing anyway may lose
    anything."""
    CRASH = "crash"
    """The process dies; what it had handed to the kernel survives."""
    POWER = "power"
    """The machine dies; only what was synced survives."""


_CLASSES = {
    "crash": FaultClass.CRASH,
    "container_oom": FaultClass.CRASH,
    "restart": FaultClass.CRASH,
    "restart_from_aof": FaultClass.CLEAN,
    "restart_from_rdb": FaultClass.CLEAN,
    "shutdown_nosave": FaultClass.CRASH,
    "failover": FaultClass.CLEAN,
    # A replica that is promoted too soon may lack what its primary had not sent: no more than a crash may take.
    "early_failover": FaultClass.CRASH,
    "power_cut": FaultClass.POWER,
    "fsync_error": FaultClass.POWER,
    "upgrade": FaultClass.CLEAN,
    "downgrade": FaultClass.CLEAN,
    "clock_step": FaultClass.CLEAN,
    "file_corruption": FaultClass.CLEAN,
    "aof_truncation": FaultClass.CLEAN,
    "wiped_volume": FaultClass.CLEAN,
}
_SERVED_THROUGH = {"fsync_error"}
"""Faults that take nothing by themselves, for the server goes on: what it had is lost when it dies, or at their end."""
DEATHS_MAX = 64
RECOVERY_KINDS = tuple(_CLASSES)
"""The kinds of faults that a server has to recover its data from."""


class FaultWindow(msgspec.Struct, kw_only=True):
    """One fault on one server, from its ledger records."""

    fault: str
    kind: str
    target: str
    started: int
    injected: int | None = None
    """When it had taken effect, if that was told: what is asked of the server later shows how it copes."""
    ended: int | None = None
    planned: bool = True
    keeps_data: bool = True
    """False: the server it happened to rests on another one, which keeps the data. Whatever that one may lose, the
    death of this one excuses nothing."""
    telemetry: dict[str, str] = {}
    telemetry_after: dict[str, str] = {}
    deaths: list[tuple[int, int]] = []
    """When the server died by itself meanwhile, and when it was back; the first of them, if there were many."""
    survivor_sent: int = 0
    """The latest time at which something that was acknowledged before and survived it had been sent."""
    known: dict[str, int] = {}
    """The last session each worker had opened when it ended: later ones it cannot have touched."""
    swept: list[str] = []
    """The stores whose every session has been read since it ended."""

    @property
    def fault_class(self) -> FaultClass:
        if self.kind == "restart" and self.planned:
            # Asked to end, and waited for. One that nobody planned may have been a kill for all we know.
            return FaultClass.CLEAN
        return _CLASSES.get(self.kind, FaultClass.HARMLESS)

    @property
    def in_effect(self) -> int | None:
        """Since when it has certainly been in effect; None while nobody can tell."""
        if self.injected is not None:
            return self.injected
        if not self.planned and self.kind == "crash":
            return self.started  # it was found dead
        return self.ended

    @property
    def is_active(self) -> bool:
        return self.ended is None

    @property
    def moments(self) -> list[tuple[int, int]]:
        """The times at which it can have taken something: since when the server was gone, and until when."""
        if self.ended is None:
            return []
        if self.kind in _SERVED_THROUGH and len(self.deaths) < DEATHS_MAX:
            return [*self.deaths, (self.ended, self.ended)]
        return [(self.started, self.ended)]

    def note_death(self, died: int, back: int) -> None:
        """Note that the server died by itself while this fault was under way."""
        if len(self.deaths) < DEATHS_MAX:
            self.deaths.append((died, back))


def allowed_loss_seconds(window: FaultWindow, contract: Contract) -> float | None:
    """Return how much acknowledged tail the contract lets this fault take; None: anything."""
    if not window.keeps_data:
        return 0.0
    if window.fault_class is FaultClass.CRASH:
        return contract.crash_loss_seconds
    if window.fault_class is FaultClass.POWER:
        return contract.power_loss_seconds
    if window.fault_class is FaultClass.CLEAN and contract.crash_loss_seconds is None:
        return None
    return 0.0


def is_excused(attempt: Attempt, window: FaultWindow, contract: Contract, *, clock_epsilon_us: int = 0) -> bool:
    """Whether the contract lets this fault take this message.

    Not if it was acknowledged after recovery, not if it lies further back than the allowed tail, and not if
    something that was sent later survived: that is a hole, and no tail. What a server acknowledges through a fault has
    to be there, too, but for the tail before it died. The times of the fault and of the message may come from hosts
    whose clocks are apart by epsilon.
    """
    allowed = allowed_loss_seconds(window, contract)
    if allowed == 0.0 or window.ended is None or attempt.ended > window.ended + clock_epsilon_us:
        return False
    if allowed is None or attempt.outcome != Outcome.OK:
        # When an unknown write was applied nobody knows; it may have been a moment before the fault.
        return True
    reach = int(allowed * 1e6) + clock_epsilon_us
    if not any(gone - reach <= attempt.ended <= back + clock_epsilon_us for gone, back in window.moments):
        return False
    return window.survivor_sent <= attempt.ended + clock_epsilon_us
