"""What the verifier's state comes to: the parts of a status and of a result, each computed from nothing else."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec

from soak.checker.verdict import FaultsTried, OperationCount, what_was_tried
from soak.clock import now_us
from soak.settings import VerifierSettings
from soak.store_errors import StoreError
from soak.verifier.findings import FindingResult
from soak.verifier.result import (
    CanaryResult,
    ClockStatus,
    FaultResult,
    KindCount,
    Measured,
    RecoveryResult,
    StayedClients,
    StoreErrorResult,
    StoreResult,
    Totals,
)
from soak.verifier.state import State, StoreQueues

RECOVERIES_LISTED_MAX = 200
FAULTS_LISTED_MAX = 256
STORE_ERRORS_LISTED_MAX = 64

APPENDS = ("append",)
READS = ("history", "recall")
OF_PARTICIPANTS = (*APPENDS, *READS, "search", "forget")


def operation_counts(state: State) -> list[OperationCount]:
    """Return how often participants asked each thing of each store, and were answered."""
    counts = []
    for store, tally in state.tally.stores.items():
        appends = OperationCount(
            store=store, operation="append", tries=sum(tally.attempts.values()), successes=tally.attempts["ok"]
        )
        counts.append(appends)
        for operation in ("history", "recall", "search", "forget"):
            answered = sum(tally.latency[operation].counts)
            tries = answered + tally.errors[operation]
            counts.append(OperationCount(store=store, operation=operation, tries=tries, successes=answered))
    return counts


def coverage_ages(state: State, now: int) -> dict[str, float]:
    """Return for each store how long ago that live session was read whole which waits longest for it."""
    oldest = dict.fromkeys(state.lanes, now)
    for tracked in state.tracked():
        if tracked.is_closed or tracked.tainted or tracked.canary:
            continue
        # One that was never read waits since its first acknowledgement; without any there is nothing to be read.
        since = tracked.last_whole or tracked.book.oldest_pending
        if since is not None and since < oldest[tracked.book.store]:
            oldest[tracked.book.store] = since
    return {store: (now - since) / 1e6 for store, since in oldest.items()}


def oldest_seconds(lane: StoreQueues) -> float:
    oldest = lane.oldest_unverified()
    return 0.0 if oldest is None else max(0.0, (now_us() - oldest) / 1e6)


def canary_facts(state: State, settings: VerifierSettings) -> dict[str, Any]:
    stores = state.tally.stores
    if not settings.canary:
        return {}
    return {
        "canaries_missed": {name: tally.canaries["missed"] for name, tally in stores.items()},
        "canaries_early": {name: tally.canaries["early"] for name, tally in stores.items()},
        "stores_without_canary": [name for name, tally in stores.items() if not tally.canaries["detected"]],
    }


# What was counted, as values -------------------------------------------------------------------------------------


def clock_doubts(state: State) -> list[str]:
    """Say which clocks were uncertain, or were set."""
    steps = state.tally.server_clock_steps
    doubts = [f"the wall clock of {server} was set while sessions were to expire by it" for server in steps]
    return state.clocks.doubts + doubts


def clocks_of(state: State) -> list[ClockStatus]:
    """Return how well the clock of each other host is known."""
    return [
        ClockStatus(
            host=one.host,
            error_seconds=None if math.isinf(one.error_seconds) else one.error_seconds,
            is_uncertain=one.is_uncertain,
            jumps=one.jumps,
        )
        for one in state.clocks.shown
    ]


def totals_of(state: State) -> Totals:
    stores = state.tally.stores.values()
    never = sum(s.released + s.unverifiable + s.undecided for s in stores)
    attempts = {outcome: sum(s.attempts[outcome] for s in stores) for outcome in ("ok", "failed", "unknown")}
    return Totals(
        attempts=attempts,
        acknowledged=attempts["ok"],
        verified=state.tally.verified,
        released=sum(s.released for s in stores),
        never_verified=never,
        never_verified_share=round(never / attempts["ok"], 6) if attempts["ok"] else 0.0,
        violations=state.tally.violations,
        tolerated=sum(s.tolerated for s in stores),
        unverifiable=state.tally.unverifiable,
        undecided=sum(s.undecided for s in stores),
        indeterminate=sum(max(0, s.attempts["unknown"] - s.surfaced) for s in stores),
        reads=sum(sum(s.latency[op].counts) for s in stores for op in ("history", "recall", "search", "sweep")),
        messages_read=sum(s.messages_read for s in stores),
        sessions=sum(s.sessions_opened for s in stores),
    )


def longest_unverified_seconds(state: State) -> float:
    return round(max((tally.unverified_seconds_max for tally in state.tally.stores.values()), default=0.0), 3)


def by_store(state: State) -> list[StoreResult]:
    return [
        StoreResult(
            store=name,
            acknowledged=tally.acknowledged,
            verified=tally.verified,
            released=tally.released,
            violations=sum(tally.violations.values()),
            tolerated=tally.tolerated,
            late_reads=tally.shadowed_reads,
            late_reads_age_seconds_max=round(tally.shadowed_lag_seconds_max, 3),
            late_reads_seconds_max=round(tally.shadowed_seconds_max, 3),
        )
        for name, tally in state.tally.stores.items()
    ]


def findings_of(state: State) -> list[FindingResult]:
    return state.tally.findings.listed({name: tally.acknowledged for name, tally in state.tally.stores.items()})


def store_errors_of(errors: list[StoreError]) -> list[StoreErrorResult]:
    return [
        StoreErrorResult(**msgspec.structs.asdict(error), line=error.line) for error in errors[:STORE_ERRORS_LISTED_MAX]
    ]


def canaries_of(state: State) -> list[CanaryResult]:
    return [
        CanaryResult(
            store=name,
            detected=tally.canaries["detected"],
            missed=tally.canaries["missed"],
            early=tally.canaries["early"],
            last_detected_wall_seconds=tally.canary_detected_wall_seconds,
        )
        for name, tally in state.tally.stores.items()
    ]


def recoveries_of(state: State) -> list[RecoveryResult]:
    """Return the faults that were measured, the latest last."""
    settled = [recovery for recovery in state.tally.recoveries.values() if recovery.is_settled]
    return [
        RecoveryResult(
            fault=recovery.fault,
            kind=recovery.kind,
            server=recovery.target,
            store=recovery.store,
            planned=recovery.planned,
            at_wall_seconds=recovery.at_wall_seconds,
            parameters=recovery.parameters,
            promised_seconds=recovery.promised_seconds,
            point_seconds=round(recovery.point_seconds, 3),
            after_seconds=round(recovery.after_seconds, 3),
            span_seconds=round(recovery.span_seconds, 3),
            is_at_least=recovery.is_at_least,
            is_unread=recovery.is_unread,
            tolerated=recovery.tolerated,
            lost=recovery.lost,
            unacknowledged=recovery.unacknowledged,
            acknowledged_during=recovery.acknowledged_during,
            lost_during=recovery.lost_during,
            kept=recovery.is_kept,
            lasted_seconds=_rounded(recovery.lasted_seconds),
            read_seconds=_rounded(recovery.read_seconds),
            write_seconds=_rounded(recovery.write_seconds),
            unknown=recovery.unknown,
            surfaced=recovery.surfaced,
            errors=recovery.errors,
            replaced=recovery.replaced,
        )
        for recovery in settled[-RECOVERIES_LISTED_MAX:]
    ]


def stayed_clients(recoveries: list[RecoveryResult]) -> list[StayedClients]:
    """Return the failovers in which clients stayed with the old primary, each once."""
    gone = Counter[str]()
    for one in recoveries:
        gone[one.fault] += one.lost + one.tolerated - one.unacknowledged
    return [
        StayedClients(
            fault=one.fault,
            kind=one.kind,
            server=one.server,
            at_wall_seconds=one.at_wall_seconds,
            primary=one.replaced.before,
            connections=one.replaced.stayed,
            seconds_max=one.replaced.stayed_seconds,
            clients=one.replaced.clients,
            gone=gone[one.fault],
            line=f"{one.kind} of {one.server}: {one.replaced.stayed_words}; {gone[one.fault]:,} acknowledged messages "
            "are gone",
        )
        for one in {one.fault: one for one in recoveries}.values()
        if one.replaced is not None and one.replaced.stayed
    ]


def staleness_of(state: State) -> dict[str, dict[str, float | None]]:
    """Return how far behind reads of each store were; a message that the first read showed is not behind at all."""
    found = {}
    for name, tally in state.tally.stores.items():
        late, fresh = tally.staleness, tally.verified
        quantiles = {f"p{share}": late.quantile(share / 100, zeros=fresh) for share in (50, 95, 99)}
        found[name] = {**quantiles, "max": late.max_seconds if late.total + fresh else None}
    return found


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def tried_by(state: State) -> FaultsTried:
    tally = state.tally
    unexpected = sum(tally.unexpected_restarts.values())
    return what_was_tried(tally.recoveries_tried, tally.faults_tried, unexpected, violations=tally.violations)


def violations_by(state: State) -> list[KindCount]:
    return [
        KindCount(store=name, kind=kind, count=count)
        for name, tally in state.tally.stores.items()
        for kind, count in tally.violations.items()
        if count
    ]


def faults_of(state: State, offset_us: int) -> list[FaultResult]:
    """Return when servers were broken, by the wall clock."""
    return [
        FaultResult(
            fault=window.fault,
            kind=window.kind,
            server=window.target,
            planned=window.planned,
            at_wall_seconds=round((window.started + offset_us) / 1e6, 3),
            ended_wall_seconds=None if window.ended is None else round((window.ended + offset_us) / 1e6, 3),
            reason=window.telemetry.get("reason", ""),
        )
        for window in list(state.faults.values())[-FAULTS_LISTED_MAX:]
    ]


def measure(state: State, unverified_seconds: dict[str, float]) -> list[Measured]:
    """Return the counts of each store."""
    return [
        Measured(
            store=name,
            acknowledged=tally.acknowledged,
            verified=tally.verified,
            violations=sum(tally.violations.values()),
            unverified_seconds=unverified_seconds.get(name, 0.0),
            errors=sum(tally.errors[operation] for operation in OF_PARTICIPANTS),
            appends=_added([tally.latency[operation].counts for operation in APPENDS]),
            reads=_added([tally.latency[operation].counts for operation in READS]),
        )
        for name, tally in state.tally.stores.items()
    ]


def _added(histograms: list[list[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]
