"""How long after a fault its server served again, and what clients met in the meantime.

Writes are timed by the ledger: the load asks all the time, each attempt is in the ledger with the times of asking and
of the answer, and no clock but the load's own is needed. Reads of participants are in the ledger only where they look
odd, so for reads the verifier asks itself (see `soak.verifier.probe`). An answer counts only if it was asked for when
the fault was in effect: one that was on its way when the server died proves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from soak.checker.attempt import Attempt
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultWindow
from soak.checker.outcome import Outcome
from soak.checker.recovery import Recovery
from soak.clock import now_us
from soak.ledger.records import Batch, FaultPhase
from soak.verifier.recovery import key_of
from soak.verifier.tally import RECOVERY_TIME_BUCKETS_SECONDS, Histogram
from soak.verifier.tracked_session import TrackedSession

if TYPE_CHECKING:
    from soak.verifier.state import State

FOLLOWED_US = 30_000_000
"""So long after its end outcomes still come in of what was asked during a fault: longer than any client waits."""
GIVEN_UP_US = 600_000_000
"""A server of which nobody asks anything must not be waited for until the end of the run."""
UNKNOWN_WRITES_MAX = 2_000
FAILURES_TOLD_MAX = 20

_OK, _UNKNOWN = int(Outcome.OK), int(Outcome.UNKNOWN)


class RecoveryTimes:
    """Follows the faults that are not over for everybody yet."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._followed: dict[str, list[FaultWindow]] | None = None
        self.has_begun = asyncio.Event()
        """Set when a fault begins."""

    # -- the faults --

    def began(self, window: FaultWindow) -> None:
        for store in self._stores_of(window):
            self._state.recoveries.of(window, store)
        self._followed = None
        self.has_begun.set()

    def injected(self, record: FaultPhase) -> None:
        """Take in that a fault has taken effect."""
        window = self._state.faults.get(record.fault)
        if window is not None:
            window.injected = record.at
        _count(self._state.tally.faults_injected, record)

    def ended(self, window: FaultWindow) -> None:
        for store in self._stores_of(window):
            recovery = self._state.recoveries.of(window, store)
            recovery.lasted_seconds = ((window.ended or window.started) - window.started) / 1e6

    def failed(self, record: FaultPhase) -> None:
        """Take in that a fault could not be injected, or not be healed."""
        tally = self._state.tally
        _count(tally.fault_failures, record)
        if len(tally.fault_failures_told) < FAILURES_TOLD_MAX:
            tally.fault_failures_told = [*tally.fault_failures_told, record.telemetry.get("reason", record.fault)]

    # -- what is asked and answered --

    @property
    def is_following(self) -> bool:
        return bool(self._windows())

    def take(self, sessions: Mapping[int, TrackedSession], batch: Batch) -> None:
        """Take in how what the load asked has ended."""
        by_store: dict[str, list[tuple[TrackedSession, Attempt]]] = {}
        for attempt in batch.attempts:
            watched = sessions.get(attempt.session)
            if watched is not None and not watched.canary:
                by_store.setdefault(watched.book.store, []).append((watched, attempt))
        for store, windows in self._windows().items():
            errors = sum(latency.errors for latency in batch.latencies if latency.store == store)
            for window in windows:
                recovery = self._state.recoveries.of(window, store)
                if window.is_active or recovery.awaits:
                    recovery.errors += errors
                self._take_attempts(window, recovery, by_store.get(store, ()))

    def _take_attempts(
        self, window: FaultWindow, recovery: Recovery, attempts: Iterable[tuple[TrackedSession, Attempt]]
    ) -> None:
        since = window.in_effect
        answered: int | None = None
        for watched, attempt in attempts:
            if attempt.outcome == _OK:
                if since is not None and attempt.sent >= since and (answered is None or attempt.ended < answered):
                    answered = attempt.ended
                continue
            recovery.last_failed = max(recovery.last_failed, attempt.ended)
            is_during = attempt.ended >= window.started and (window.ended is None or attempt.sent <= window.ended)
            if attempt.outcome == _UNKNOWN and is_during:
                recovery.unknown += 1
                self._remember(watched.book, attempt, key_of(window, recovery.store))
        if answered is not None and recovery.write_seconds is None:
            recovery.write_seconds = (answered - window.started) / 1e6
            self._observe(window, "write", recovery.write_seconds)

    def read(self, store: str, invoked: int, returned: int, *, answered: bool) -> None:
        """Take in how a read of the verifier's own has ended."""
        for window in self._windows().get(store, ()):
            recovery = self._state.recoveries.of(window, store)
            since = window.in_effect
            if not answered:
                recovery.last_failed = max(recovery.last_failed, returned)
            elif recovery.read_seconds is None and since is not None and invoked >= since:
                recovery.read_seconds = (returned - window.started) / 1e6
                self._observe(window, "read", recovery.read_seconds)

    def surfaced(self, book: ExpectedSession, names: Iterable[tuple[int, int]]) -> None:
        """Take in that unknown writes turned out to be there."""
        unknown = self._state.tally.unknown_writes
        for writer, seq in names if unknown else ():
            recovery = self._state.tally.recoveries.get(unknown.pop(f"{book.store}/{book.session}/{writer}/{seq}", ""))
            if recovery is not None:
                recovery.surfaced += 1

    def awaits_read(self, store: str) -> bool:
        """Whether a read of this store would tell when its server served again."""
        windows = self._windows().get(store, ())
        return any(self._state.recoveries.of(window, store).read_seconds is None for window in windows)

    def unfinished(self, now: int) -> list[dict[str, Any]]:
        """Tell of the faults after which something has not been seen to work again."""
        return [
            {
                "fault": window.fault,
                "kind": window.kind,
                "server": window.target,
                "store": store,
                "planned": window.planned,
                "awaits": recovery.awaits,
                "healed_seconds": None if window.ended is None else (now - window.ended) / 1e6,
                "is_failing": window.ended is None or recovery.last_failed > window.ended,
            }
            for store, windows in self._windows().items()
            for window in windows
            if (recovery := self._state.recoveries.of(window, store)).awaits
        ]

    # -- which faults are followed --

    def _windows(self) -> dict[str, list[FaultWindow]]:
        """Return by store the faults that are not over for its clients; found anew when that may have changed."""
        if self._followed is None:
            self._followed = {}
            for window in self._state.faults.values():
                for store in self._stores_of(window):
                    if key_of(window, store) in self._state.tally.recoveries:
                        self._followed.setdefault(store, []).append(window)
        if self._followed:
            now = now_us()
            kept = {
                store: [w for w in windows if self._is_open(w, store, now)] for store, windows in self._followed.items()
            }
            self._followed = {store: windows for store, windows in kept.items() if windows}
        return self._followed

    def _is_open(self, window: FaultWindow, store: str, now: int) -> bool:
        recovery = self._state.tally.recoveries.get(key_of(window, store))
        if recovery is None:
            return False
        if window.ended is None:
            return True
        return now - window.ended < (GIVEN_UP_US if recovery.awaits else FOLLOWED_US)

    def _stores_of(self, window: FaultWindow) -> list[str]:
        return [store for store, targets in self._state.targets.items() if window.target in targets]

    def _remember(self, book: ExpectedSession, attempt: Attempt, key: str) -> None:
        unknown = self._state.tally.unknown_writes
        unknown[f"{book.store}/{book.session}/{attempt.writer}/{attempt.seq}"] = key
        while len(unknown) > UNKNOWN_WRITES_MAX:
            unknown.pop(next(iter(unknown)))

    def _observe(self, window: FaultWindow, operation: str, seconds: float) -> None:
        kinds = self._state.tally.recovery_times.setdefault(window.target, {})
        histograms = kinds.setdefault(window.kind, {})
        bounds = RECOVERY_TIME_BUCKETS_SECONDS
        histograms.setdefault(operation, Histogram.over(bounds)).observe(seconds, bounds)


def _count(counts: dict[str, dict[str, int]], record: FaultPhase) -> None:
    kinds = counts.setdefault(record.target, {})
    kinds[record.kind] = kinds.get(record.kind, 0) + 1
