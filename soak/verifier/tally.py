"""Everything that is counted, as plain numbers that are saved with each checkpoint, so counters survive a restart."""

from __future__ import annotations

import functools
import time
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from soak.checker.faults import Recovery
from soak.checker.kinds import Kind
from soak.checker.outcome import Outcome
from soak.checker.partial import is_blind
from soak.contracts.drift import Event, ServerRecord
from soak.histogram import BOUNDS, Buckets, LogHistogram, longest_seconds
from soak.ledger.records import LATENCY_BUCKETS_SECONDS, LatencyTally
from soak.store_errors import StoreError, StoreErrors, is_broken
from soak.verifier.findings import ViolationGroups
from soak.verifier.latencies import OperationTimes

STALE_LAG_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RECOVERY_TIME_BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
RECOVERY_POINT_BUCKETS_SECONDS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)

OPERATIONS = ("append", "history", "recall", "search", "forget", "sweep")
"""What is timed: five operations of the load, and the verifier's own reads."""

SEARCH_RESULTS = ("hit", "found_wide", "found_later", "not_found", "unanswered", "not_expected")
"""What came of a search for a message by its own words: it was among the nearest; only a wide search showed it; only a
later one did; it was not shown although it is stored; there was no answer; or it was forgotten, or not read yet, and
need not have been shown."""


ESSENTIAL_METHODS = ("append", "history")
"""Without these two nothing of a store can be verified."""


class Histogram(msgspec.Struct):
    """Counts by bucket, the last one for what is larger than every bound."""

    counts: list[int]
    sum: float = 0.0

    @classmethod
    def over(cls, bounds: tuple[float, ...]) -> Histogram:
        return cls(counts=[0] * (len(bounds) + 1))

    def observe(self, value: float, bounds: tuple[float, ...], times: int = 1) -> None:
        self.counts[bisect_left(bounds, value)] += times
        self.sum += value * times

    def add(self, counts: Buckets, total: float, bounds: tuple[float, ...]) -> None:
        """Take in finer buckets, of which none lies across one of these bounds."""
        coarse = _coarse(bounds)
        for bucket, count in counts.items():
            self.counts[coarse[bucket]] += count
        self.sum += total


@functools.cache
def _coarse(bounds: tuple[float, ...]) -> list[int]:
    """Return for each of the finer buckets in which of those between these bounds it lies."""
    return [bisect_left(bounds, longest_seconds(bucket)) for bucket in range(len(BOUNDS) + 1)]


def _by_outcome() -> dict[str, int]:
    return {outcome.name.lower(): 0 for outcome in Outcome}


def _by_kind() -> dict[str, int]:
    return {kind.value: 0 for kind in Kind}


def _by_canary_end() -> dict[str, int]:
    return {"detected": 0, "missed": 0, "early": 0}


def _by_search_result() -> dict[str, int]:
    return dict.fromkeys(SEARCH_RESULTS, 0)


def _latencies() -> dict[str, Histogram]:
    return {operation: Histogram.over(LATENCY_BUCKETS_SECONDS) for operation in OPERATIONS}


def _errors() -> dict[str, int]:
    return dict.fromkeys(OPERATIONS, 0)


def _mark(what: str, recoveries: Sequence[Recovery]) -> None:
    for recovery in recoveries:
        recovery.counted = [*recovery.counted, what]


class StoreTally(msgspec.Struct):
    """What is counted for one store. Every label set is there from the start, at zero."""

    attempts: dict[str, int] = msgspec.field(default_factory=_by_outcome)
    forgets: dict[str, int] = msgspec.field(default_factory=_by_outcome)
    verified: int = 0
    surfaced: int = 0
    """Unknown writes that turned out to be there."""
    released: int = 0
    """Acknowledged, and forgotten or expired before anyone had looked."""
    violations: dict[str, int] = msgspec.field(default_factory=_by_kind)
    healed: dict[str, int] = msgspec.field(default_factory=_by_kind)
    open: dict[str, int] = msgspec.field(default_factory=_by_kind)
    """Violations that still stand; one that heals and comes back is open again, and not counted again."""
    tolerated: int = 0
    unverifiable: int = 0
    undecided: int = 0
    """Acknowledged messages of sessions whose times cannot be compared, because of a clock."""
    unverified_seconds_max: float = 0.0
    """The longest that an acknowledged message ever had to wait to be verified, while it could have been."""
    pauses: list[tuple[int, int]] = []
    """When nothing could be verified: the last times, in microseconds."""
    observations: int = 0
    sessions_opened: int = 0
    sessions_retired: int = 0
    messages_read: int = 0
    searches: dict[str, int] = msgspec.field(default_factory=_by_search_result)
    """Messages that the verifier asked for by their own words, in a store that can be searched."""
    recalls: dict[str, int] = {}
    """Closed sessions read back at each of the recall ages."""
    oldest_recall_seconds: float = 0.0
    """The greatest age, since its end, at which a session was read back and judged."""
    canaries: dict[str, int] = msgspec.field(default_factory=_by_canary_end)
    """Sessions spoiled on purpose, by whether that was reported. They count nowhere else."""
    canary_detected_wall_seconds: float = 0.0
    acknowledged_wall_seconds: float = 0.0
    """When the last acknowledgement came in that the ledger tells of."""
    latency: dict[str, Histogram] = msgspec.field(default_factory=_latencies)
    errors: dict[str, int] = msgspec.field(default_factory=_errors)
    times: OperationTimes = msgspec.field(default_factory=OperationTimes)
    """How long participants waited, inside of faults and outside."""
    staleness: LogHistogram = msgspec.field(default_factory=LogHistogram)
    """How far behind reads were that did not show a message; like `stale_lag`, and finer."""
    shadowed_reads: int = 0
    """Messages that a replica showed late because of a fault: tolerated, and measured."""
    shadowed_lag_seconds_max: float = 0.0
    """How old the oldest of them was when a read did not show it."""
    shadowed_seconds_max: float = 0.0
    """For how long the one that took longest was not shown."""
    stale_lag: Histogram = msgspec.field(default_factory=lambda: Histogram.over(STALE_LAG_BUCKETS_SECONDS))

    @property
    def is_blind(self) -> bool:
        """Whether its searches found next to nothing of what is stored."""
        found = sum(self.searches[result] for result in ("hit", "found_wide", "found_later"))
        return is_blind(found, found + self.searches["not_found"] + self.searches["unanswered"])

    @property
    def acknowledged(self) -> int:
        return self.attempts["ok"]

    def successes(self, method: str) -> int:
        """Return how often a method of the store has returned."""
        if method == "append":
            return self.acknowledged
        return sum(sum(self.latency[operation].counts) for operation in ("history", "recall", "sweep"))

    def add_latency(self, tally: LatencyTally) -> None:
        histogram = self.latency.get(tally.operation)
        if histogram is not None:
            histogram.add(tally.counts, tally.sum_seconds, LATENCY_BUCKETS_SECONDS)
            self.errors[tally.operation] += sum(tally.errors.values())


class Tally(msgspec.Struct):
    """What is counted for the run."""

    stores: dict[str, StoreTally]
    browser_acknowledged: int = 0
    """Of all acknowledged messages, those that were typed into a page."""
    batches: int = 0
    batches_repeated: int = 0
    batches_missing: int = 0
    """Gaps: batches that were written and never arrived, or arrived damaged."""
    journal_lines_damaged: int = 0
    """Lines of the journal of violations that could not be read after a restart."""
    records_taken: int = 0
    """Ledger records of every sort that were read, good or bad."""
    records_skipped: int = 0
    """Ledger records that are known to have vanished before they were read."""
    damage: list[str] = []
    """Files of the verifier's own that were damaged or gone when it started, and what that means."""
    observations_suppressed: int = 0
    evidence_failures: int = 0
    restarts: int = 0
    server_clock_steps: dict[str, int] = {}
    """By server: how often its wall clock was set while sessions on it were to expire by it."""
    servers: dict[str, ServerRecord] = {}
    """How each server under test was configured at the beginning, and what differs from that."""
    events: list[Event] = []
    """What changed on the servers while the soak ran, the latest last."""
    recoveries_tried: dict[str, int] = {}
    """By kind: faults that are over, and that a server had to recover its data from."""
    faults_tried: dict[str, int] = {}
    """By kind: other faults that are over."""
    unexpected_restarts: dict[str, int] = {}
    """By server: how often it restarted by itself, with no fault of ours to explain it."""
    recoveries: dict[str, Recovery] = {}
    """What each fault took of each store."""
    recovery_points: dict[str, dict[str, Histogram]] = {}
    """By server and kind of fault: seconds of acknowledged tail that were gone."""
    recoveries_beyond: dict[str, dict[str, int]] = {}
    """By server and kind of fault: how often more was gone than is promised."""

    recovery_times: dict[str, dict[str, dict[str, Histogram]]] = {}
    """By server, kind of fault and operation: seconds until it was answered again."""
    replacements: dict[str, dict[str, int]] = {}
    """By server and kind of fault: how often the primary of a group was replaced."""
    replacement_seconds_max: dict[str, float] = {}
    """By server: the longest that it took until the group named another primary."""
    stayed_clients: dict[str, dict[str, int]] = {}
    """By server and kind of fault: connections of clients that stayed with a primary that had been replaced."""
    stayed_seconds_max: dict[str, float] = {}
    """By server: the longest that any did."""
    unknown_writes: dict[str, str] = {}
    """Appends of which nobody knows whether they were applied, and the recovery that tells of each."""
    faults_injected: dict[str, dict[str, int]] = {}
    """By server and kind: faults that were planned, and happened."""
    fault_failures: dict[str, dict[str, int]] = {}
    """By server and kind: faults that were planned and could not be injected, or not be healed."""
    fault_failures_told: list[str] = []
    """What went wrong with the first of them."""
    findings: ViolationGroups = msgspec.field(default_factory=ViolationGroups)
    """All violations, grouped by store, kind and probable cause."""
    store_errors: StoreErrors = msgspec.field(default_factory=StoreErrors)
    """What the stores raised, in the load and in the verifier."""

    def count_recovery_point(self, recoveries: Sequence[Recovery], seconds: float) -> None:
        """Count how much of the acknowledged tail one fault took, of all stores."""
        first = recoveries[0]
        points = self.recovery_points.setdefault(first.target, {})
        histogram = points.setdefault(first.kind, Histogram.over(RECOVERY_POINT_BUCKETS_SECONDS))
        histogram.observe(seconds, RECOVERY_POINT_BUCKETS_SECONDS)
        _mark("point", recoveries)

    def count_recovery_beyond(self, recoveries: Sequence[Recovery]) -> None:
        """Count a fault that took more of a store than is promised."""
        first = recoveries[0]
        beyond = self.recoveries_beyond.setdefault(first.target, {})
        beyond[first.kind] = beyond.get(first.kind, 0) + 1
        _mark("beyond", recoveries)

    def count_recovery_time(self, recovery: Recovery, operation: str, seconds: float) -> None:
        """Count how long it took until a store answered again."""
        operations = self.recovery_times.setdefault(recovery.target, {}).setdefault(recovery.kind, {})
        bounds = RECOVERY_TIME_BUCKETS_SECONDS
        operations.setdefault(operation, Histogram.over(bounds)).observe(seconds, bounds)
        _mark(operation, [recovery])

    def note_exception(self, store: str, operation: str, error: BaseException) -> bool:
        """Count an exception that a store raised; returns whether it is of a new kind."""
        return self.store_errors.note(store, operation, error, time.time())

    def broken_stores(self) -> list[StoreError]:
        """Return why stores cannot be soaked: each call of theirs ends in the same programming error."""
        now = time.time()
        return [
            error
            for error in self.store_errors.listed()
            if error.operation in ESSENTIAL_METHODS
            and (tally := self.stores.get(error.store)) is not None
            and is_broken(error, tally.successes(error.operation), now)
        ]

    @property
    def violations(self) -> int:
        return sum(sum(store.violations.values()) for store in self.stores.values())

    @property
    def verified(self) -> int:
        return sum(store.verified for store in self.stores.values())

    @property
    def unverifiable(self) -> int:
        lost = self.batches_missing + self.journal_lines_damaged
        return lost + sum(store.unverifiable for store in self.stores.values())
