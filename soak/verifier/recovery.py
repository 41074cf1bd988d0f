"""What each restart took: tolerated and other losses by fault, and the recovery point that was measured.

A fault is settled when every session has been read since and what was missing is confirmed; until then the oldest
message that it took may still be found.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from soak.checker.absorb import next_known
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import Excuse, FaultWindow, Recovery, age_at, begin_recovery, blamed_window
from soak.checker.incidents import Suspicion
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt
from soak.checker.second_look import Lost
from soak.clock import now_us
from soak.verifier.tally import RECOVERY_POINT_BUCKETS_SECONDS, Histogram

if TYPE_CHECKING:
    from soak.verifier.state import State

RECOVERIES_KEPT = 512
TICK_SECONDS = 0.5
SETTLE_US_MAX = 120_000_000
"""A doubt that is never resolved must not keep a fault from being measured for ever."""


class Recoveries:
    """Keeps account of what each fault took of each store."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._swept_at: dict[str, int] = {}

    async def run(self) -> None:
        """Settle faults until cancelled."""
        while True:
            self.settle(now_us())
            await asyncio.sleep(TICK_SECONDS)

    def note(self, book: ExpectedSession, losses: Iterable[Lost], suspicion: Suspicion) -> None:
        """Count messages that are confirmed as gone, each with the fault that may have taken it, if there is one."""
        targets = self._state.targets[book.store]
        windows = [window for window in self._state.faults.values() if window.target in targets]
        if not windows:
            return
        known = (*book.recent, *book.pending)
        for lost in losses:
            last_seen = suspicion.last_seen if lost.kind is Kind.ROLLED_BACK else 0
            window = lost.excused_by or blamed_window(
                lost.attempt, windows, last_seen=last_seen, missed=suspicion.returned
            )
            if window is not None:
                self._note(window, book.store, lost, lost.attempt or next_known(known, lost.place))

    def _note(self, window: FaultWindow, store: str, lost: Lost, latest: Attempt | None) -> None:
        recovery = self.of(window, store)
        was_kept = recovery.is_kept
        recovery.note(
            age_at(window, latest), is_exact=lost.attempt is not None, is_tolerated=lost.excused_by is not None
        )
        if recovery.is_settled and was_kept and not recovery.is_kept:
            self._count_beyond(window)

    def settle(self, now: int, *, is_final: bool = False) -> None:
        """Measure the faults of which everything is known by now; at the end, all that are over."""
        for window in list(self._state.faults.values()):
            stores = self._unsettled(window)
            if not stores:
                continue
            is_clear = self._is_clear(window, stores, now)
            if not is_clear and not is_final:
                continue
            self._swept_at.pop(window.fault, None)
            recoveries = [self.of(window, store) for store in stores]
            for recovery in recoveries:
                recovery.is_settled = True
                recovery.is_unread = not is_clear
            self._measure(window, recoveries)

    def _unsettled(self, window: FaultWindow) -> list[str]:
        if window.ended is None:
            return []
        known = self._state.tally.recoveries
        stores = [store for store, targets in self._state.targets.items() if window.target in targets]
        return [
            store for store in stores if (found := known.get(key_of(window, store))) is None or not found.is_settled
        ]

    def _is_clear(self, window: FaultWindow, stores: list[str], now: int) -> bool:
        if not self._state.faults.is_swept(window):
            return False
        swept_at = self._swept_at.setdefault(window.fault, now)
        # Among all, not only those in line for a second look: one that is being looked at is in no line.
        in_doubt = any(
            watched.suspicions is not None
            and watched.book.store in stores
            and any(suspicion.invoked <= swept_at for suspicion in watched.suspicions)
            for watched in self._state.watched()
        )
        return not in_doubt or now - swept_at > SETTLE_US_MAX

    def _measure(self, window: FaultWindow, recoveries: list[Recovery]) -> None:
        if window.excuses is Excuse.NOTHING:
            return  # it has no data to recover, only to serve again
        if any(recovery.is_unread for recovery in recoveries):
            return  # what it took is not known
        points = self._state.tally.recovery_points.setdefault(window.target, {})
        histogram = points.setdefault(window.kind, Histogram.over(RECOVERY_POINT_BUCKETS_SECONDS))
        histogram.observe(max(recovery.point_seconds for recovery in recoveries), RECOVERY_POINT_BUCKETS_SECONDS)
        if not all(recovery.is_kept for recovery in recoveries):
            self._count_beyond(window)

    def _count_beyond(self, window: FaultWindow) -> None:
        beyond = self._state.tally.recoveries_beyond.setdefault(window.target, {})
        beyond[window.kind] = beyond.get(window.kind, 0) + 1

    def of(self, window: FaultWindow, store: str) -> Recovery:
        """Return the account of one fault and one store; it is opened with the first word of it."""
        known = self._state.tally.recoveries
        found = known.get(key_of(window, store))
        if found is None:
            ago_seconds = (now_us() - window.started) / 1e6
            contract = self._state.header.contracts[store]
            found = known[key_of(window, store)] = begin_recovery(window, store, contract, time.time() - ago_seconds)
            while len(known) > RECOVERIES_KEPT:
                known.pop(next(iter(known)))
        return found


def key_of(window: FaultWindow, store: str) -> str:
    return f"{window.fault}/{store}"
