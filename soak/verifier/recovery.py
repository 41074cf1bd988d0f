"""What each fault took, and how long after it its server served again.

Recovery point: tolerated and other losses by fault. A fault is settled when every session has been read since and what
was missing is confirmed; until then the oldest message that it took may still be found.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from soak.checker.absorb import next_known
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import (
    Excuse,
    FaultHistory,
    FaultWindow,
    Recovery,
    Replaced,
    age_at,
    begin_recovery,
    blamed_window,
    replaced_in,
)
from soak.checker.incidents import Suspicion
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.second_look import Lost
from soak.checker.telemetry import ServerSample
from soak.clock import now_us
from soak.ledger.records import Batch, FaultPhase
from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA
from soak.tasks import raise_if_cancelled
from soak.verifier.result import UnfinishedRecovery
from soak.verifier.tracked_session import TrackedSession

if TYPE_CHECKING:
    from soak.verifier.examiner import Examiner
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
            age_at(window, latest),
            is_exact=lost.attempt is not None,
            is_tolerated=lost.excused_by is not None,
            is_acknowledged=lost.attempt is None or lost.attempt.outcome == _OK,
        )
        if recovery.is_settled and was_kept and not recovery.is_kept and not self._state.adds_up:
            self._state.tally.count_recovery_beyond([recovery])

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
        # One without an account was settled long ago: only the latest are kept.
        return [
            store
            for store in stores
            if (found := known.get(key_of(window, store))) is not None and not found.is_settled
        ]

    def _is_clear(self, window: FaultWindow, stores: list[str], now: int) -> bool:
        if not self._state.faults.is_swept(window):
            return False
        swept_at = self._swept_at.setdefault(window.fault, now)
        # Among all, not only those in line for a second look: one that is being looked at is in no line.
        in_doubt = any(
            tracked.suspicions is not None
            and tracked.book.store in stores
            and any(suspicion.invoked <= swept_at for suspicion in tracked.suspicions)
            for tracked in self._state.tracked()
        )
        return not in_doubt or now - swept_at > SETTLE_US_MAX

    def _measure(self, window: FaultWindow, recoveries: list[Recovery]) -> None:
        if window.excuses is Excuse.NOTHING:
            return  # it has no data to recover, only to serve again
        if any(recovery.is_unread for recovery in recoveries):
            return  # what it took is not known
        if self._state.adds_up:
            return  # it is known when the others have said what it took of their sessions
        tally = self._state.tally
        tally.count_recovery_point(recoveries, max(recovery.point_seconds for recovery in recoveries))
        if not all(recovery.is_kept for recovery in recoveries):
            tally.count_recovery_beyond(recoveries)

    def of(self, window: FaultWindow, store: str) -> Recovery:
        """Return the account of one fault and one store; it is opened with the first word of it."""
        known = self._state.tally.recoveries
        found = known.get(key_of(window, store))
        if found is None:
            ago_seconds = (now_us() - window.started) / 1e6
            contract = self._state.header.contracts[store]
            found = known[key_of(window, store)] = begin_recovery(window, store, contract, time.time() - ago_seconds)
            while len(known) > RECOVERIES_KEPT:
                over = (key for key, recovery in known.items() if recovery.is_settled and not recovery.awaits)
                known.pop(next(over, next(iter(known))))
        return found


def key_of(window: FaultWindow, store: str) -> str:
    return f"{window.fault}/{store}"


# How long after a fault its server served again, and what clients met in the meantime.
#
# Writes are timed by the ledger: the load asks all the time, each attempt is in the ledger with the times of asking and
# of the answer, and no clock but the load's own is needed. Reads of participants are in the ledger only where they look
# odd, so for reads the verifier asks itself (see `soak.verifier.recovery`). An answer counts only if it was asked for
# when the fault was in effect: one that was on its way when the server died proves nothing.


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
        if (replaced := replaced_in(window)) is not None:
            self._count_replacement(window, replaced)
        for store in self._stores_of(window):
            recovery = self._state.recoveries.of(window, store)
            recovery.lasted_seconds = ((window.ended or window.started) - window.started) / 1e6
            recovery.replaced = replaced

    def _count_replacement(self, window: FaultWindow, replaced: Replaced) -> None:
        tally = self._state.tally
        for counts, more in ((tally.replacements, replaced.times), (tally.stayed_clients, replaced.stayed)):
            kinds = counts.setdefault(window.target, {})
            kinds[window.kind] = kinds.get(window.kind, 0) + more
        for longest, seconds in (
            (tally.replacement_seconds_max, replaced.seconds),
            (tally.stayed_seconds_max, replaced.stayed_seconds),
        ):
            longest[window.target] = max(longest.get(window.target, 0.0), seconds)

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
            tracked = sessions.get(attempt.session)
            if tracked is not None and not tracked.canary:
                by_store.setdefault(tracked.book.store, []).append((tracked, attempt))
        for store, windows in self._windows().items():
            errors = sum(sum(one.errors.values()) for one in batch.latencies if one.store == store)
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
        for tracked, attempt in attempts:
            if attempt.outcome == _OK:
                is_in_it = window.started < attempt.ended and (window.ended is None or attempt.ended <= window.ended)
                recovery.acknowledged_during += is_in_it
                if since is not None and attempt.sent >= since and (answered is None or attempt.ended < answered):
                    answered = attempt.ended
                continue
            recovery.last_failed = max(recovery.last_failed, attempt.ended)
            is_during = attempt.ended >= window.started and (window.ended is None or attempt.sent <= window.ended)
            if attempt.outcome == _UNKNOWN and is_during:
                recovery.unknown += 1
                self._remember(tracked.book, attempt, key_of(window, recovery.store))
        if answered is not None and recovery.write_seconds is None:
            recovery.write_seconds = (answered - window.started) / 1e6
            self._observe(recovery, "write", recovery.write_seconds)

    def read(self, store: str, invoked: int, returned: int, *, answered: bool) -> None:
        """Take in how a read of the verifier's own has ended."""
        for window in self._windows().get(store, ()):
            recovery = self._state.recoveries.of(window, store)
            since = window.in_effect
            if not answered:
                recovery.last_failed = max(recovery.last_failed, returned)
            elif recovery.read_seconds is None and since is not None and invoked >= since:
                recovery.read_seconds = (returned - window.started) / 1e6
                self._observe(recovery, "read", recovery.read_seconds)

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

    def unfinished(self, now: int) -> list[UnfinishedRecovery]:
        """Return the faults after which something has not been seen to work again."""
        return [
            UnfinishedRecovery(
                fault=window.fault,
                kind=window.kind,
                server=window.target,
                store=store,
                planned=window.planned,
                awaits=recovery.awaits,
                healed_seconds=None if window.ended is None else (now - window.ended) / 1e6,
                is_failing=window.ended is None or recovery.last_failed > window.ended,
            )
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
                store: [w for w in windows if self.is_open(w, store, now)] for store, windows in self._followed.items()
            }
            self._followed = {store: windows for store, windows in kept.items() if windows}
        return self._followed

    def is_open(self, window: FaultWindow, store: str, now: int | None = None) -> bool:
        """Whether clients of this store may still feel the fault."""
        recovery = self._state.tally.recoveries.get(key_of(window, store))
        if recovery is None:
            return False
        if window.ended is None:
            return True
        if recovery.lasted_seconds is None:
            return False  # its account was let go, and opened again for a loss that was found late
        return (now or now_us()) - window.ended < (GIVEN_UP_US if recovery.awaits else FOLLOWED_US)

    def _stores_of(self, window: FaultWindow) -> list[str]:
        return [store for store, targets in self._state.targets.items() if window.target in targets]

    def _remember(self, book: ExpectedSession, attempt: Attempt, key: str) -> None:
        unknown = self._state.tally.unknown_writes
        unknown[f"{book.store}/{book.session}/{attempt.writer}/{attempt.seq}"] = key
        while len(unknown) > UNKNOWN_WRITES_MAX:
            unknown.pop(next(iter(unknown)))

    def _observe(self, recovery: Recovery, operation: str, seconds: float) -> None:
        if not self._state.adds_up:
            self._state.tally.count_recovery_time(recovery, operation, seconds)


def _count(counts: dict[str, dict[str, int]], record: FaultPhase) -> None:
    kinds = counts.setdefault(record.target, {})
    kinds[record.kind] = kinds.get(record.kind, 0) + 1


# Notices when a replica has caught up after a fault: by position in the log, not by what it says of its lag.


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


# Asking a store again and again while a fault is not over for it: when it answers a read, it serves again.
#
# The sweeps cannot tell: they stay away from a store that gives no answer, the longer the longer it lasts.


PROBE_SECONDS = 0.05
ANSWER_SECONDS_MAX = 1.0
"""A read that waits longer is asked anew: its connection may be one that is never answered."""


class Probe:
    """Reads one session of one store, for the time that it takes and nothing else."""

    def __init__(self, examiner: Examiner, state: State) -> None:
        self._examiner = examiner
        self._state = state

    async def run(self) -> None:
        """Ask while there is something to learn, until cancelled."""
        recovery_times = self._state.recovery_times
        while True:
            if recovery_times.awaits_read(self._examiner.name):
                await self._ask()
                raise_if_cancelled()
            elif not recovery_times.is_following:
                recovery_times.has_begun.clear()
                await recovery_times.has_begun.wait()
            await asyncio.sleep(PROBE_SECONDS)

    async def _ask(self) -> None:
        invoked = now_us()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                # Whether there is such a session does not matter: no answer and no messages are different answers.
                await self._examiner.store.history(f"{self._state.header.namespace}-probe", 1)
        except Exception:  # noqa: BLE001  a user's store may raise anything
            self._state.recovery_times.read(self._examiner.name, invoked, now_us(), answered=False)
        else:
            self._state.recovery_times.read(self._examiner.name, invoked, now_us(), answered=True)
