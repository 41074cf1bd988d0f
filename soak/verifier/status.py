"""How it goes, for people, scrapes and the final result."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

import msgspec
from prometheus_client.core import Exemplar

from soak.checker.verdict import Facts, FaultsTried, OperationCount, Verdict, reach_verdict, what_was_tried
from soak.clock import clock_offset_us, now_us
from soak.ledger.records import this_host
from soak.metrics import Gauges, Latest
from soak.settings import SoakSettings, VerifierSettings
from soak.store_errors import StoreError
from soak.verifier import drift
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.findings import FindingResult
from soak.verifier.follower import Follower
from soak.verifier.journal import Violation
from soak.verifier.latencies import latencies_of
from soak.verifier.merging import last_sweeps, merged_clocks, merged_gauges
from soak.verifier.progress import Backpressure
from soak.verifier.reporter import RECENT_VIOLATIONS_MAX, Reporter
from soak.verifier.result import (
    UNDECIDED,
    ActiveFault,
    CanaryResult,
    ClockStatus,
    FaultResult,
    KindCount,
    LatencyResult,
    Measured,
    RecoveryResult,
    Result,
    StayedClients,
    StoreErrorResult,
    StoreResult,
    ThresholdResult,
    ThresholdState,
    Totals,
    UnfinishedRecovery,
    VerifierStatus,
    ViolationHead,
)
from soak.verifier.sharing import LeftOver, ShardReport
from soak.verifier.state import State, StoreQueues
from soak.verifier.sweeper import Sweeper
from soak.verifier.tally import Tally
from soak.verifier.thresholds import ThresholdInputs, judge

EVIDENCE_SHOWN_MAX = 20
RECOVERIES_LISTED_MAX = 200
FAULTS_LISTED_MAX = 256
STORE_ERRORS_LISTED_MAX = 64
LATENCIES_SECONDS = 3.0
"""How old the percentiles of a live status may be; those of a result are of its moment."""

APPENDS = ("append",)
READS = ("history", "recall")
OF_PARTICIPANTS = (*APPENDS, *READS, "search", "forget")


class Status:
    """Answers how the verification stands."""

    def __init__(
        self,
        state: State,
        sweepers: list[Sweeper],
        follower: Follower,
        reporter: Reporter,
        evidence: EvidenceFolder,
        backpressure: Backpressure,
        settings: SoakSettings,
    ) -> None:
        self._settings_seconds = settings_seconds(settings)
        self._limits = settings.thresholds
        self._state = state
        self._sweepers = sweepers
        self._follower = follower
        self._reporter = reporter
        self._evidence = evidence
        self._backpressure = backpressure
        self.phase = "following"
        self.state_bytes = 0
        self.loop_delay_seconds = 0.0
        self._warning = ""
        self._evidence_shown: tuple[int, list[str]] = (0, [])
        self._latencies: list[LatencyResult] = []
        self._latencies_until = 0.0

    def warn(self, text: str) -> None:
        self._warning = text

    @property
    def _counted(self) -> State:
        """The state with what is counted; where this is the first of several verifiers, what all of them have."""
        sharing = self._state.sharing
        return sharing.whole(self._state) if sharing is not None and sharing.shard.is_first else self._state

    @property
    def _others(self) -> list[ShardReport]:
        sharing = self._state.sharing
        return [] if sharing is None else sharing.others

    def tally(self) -> Tally:
        return self._counted.tally

    def gauges(self) -> Gauges:
        """Return what is true now, of all verifiers where this is the first."""
        own = self.own_gauges()
        whole = merged_gauges(own, [one.gauges for one in self._others]) if self._others else own
        return msgspec.structs.replace(whole, shards=self._shards(own))

    def _shards(self, own: Gauges) -> dict[str, tuple[bool, int, int]]:
        sharing, tally = self._state.sharing, self._state.tally
        if sharing is None or not sharing.shard.is_first:
            number = 1 if sharing is None else sharing.shard.number
            return {str(number): (True, own.unread_messages, tally.verified)}
        statuses = sharing.statuses(own, self._state)
        return {str(one.shard): (one.is_heard, one.unread, one.verified) for one in statuses}

    def report(self, left: LeftOver | None = None) -> ShardReport:
        """Return what the first verifier has to know of this one."""
        assert self._state.sharing is not None  # noqa: S101  it is asked for only where there are several
        return self._state.sharing.report(
            self._state,
            phase=self.phase,
            gauges=self.own_gauges(),
            recent=list(self._reporter.recent),
            warnings=self.warnings(),
            sessions_left=sum(sweeper.sessions_left for sweeper in self._sweepers),
            violations_unlisted=self._evidence.violations_unlisted,
            clocks=clocks_of(self._state),
            left=left,
        )

    def own_gauges(self) -> Gauges:
        lanes = self._state.lanes
        return Gauges(
            oldest_unverified_seconds=self._oldest_by_store(),
            last_sweep_timestamp_seconds=self._last_sweeps(),
            sessions_live={name: lane.live for name, lane in lanes.items()},
            suspicions_open=self._suspicions(),
            faults_active=sum(window.is_active for window in self._state.faults.values()),
            ledger_lag_seconds=self._follower.lag_seconds,
            ledger_reachable=self._follower.is_reachable,
            unread_messages=self._backpressure.unread,
            load_held_back=self._backpressure.is_holding,
            state_bytes=self.state_bytes,
            loop_delay_seconds=self.loop_delay_seconds,
            contracts=self._state.header.contracts,
            origins=self._state.header.origins,
            configuration_drift=drift.drift_now(self._state),
            unmet_clauses=drift.unmet_now(self._state),
            targets=tuple(sorted({one for targets in self._state.targets.values() for one in targets})),
            faults_by_server=self._faults_by_server(),
            servers=drift.latest_samples(self._state),
            run_start_time_seconds=self._state.header.started_wall_seconds,
            evidence_files=self._evidence.files,
            evidence_bytes=self._evidence.files_bytes,
            phase="running" if self.phase == "following" else self.phase,
            coverage_age_seconds=coverage_ages(self._state, now_us()),
            recovering_seconds=self._recovering_seconds(),
            planned_faults_active=sum(w.is_active and w.planned for w in self._state.faults.values()),
            planned_faults_by_store=self._planned_faults_by_store(),
            settings_seconds=self._settings_seconds,
            clocks={this_host().name: (0.0, 0)}
            | {one.host: (one.error_seconds, one.jumps) for one in self._state.clocks.shown},
        )

    def _planned_faults_by_store(self) -> dict[str, int]:
        broken = [window.target for window in self._state.faults.values() if window.is_active and window.planned]
        return {store: sum(one in targets for one in broken) for store, targets in self._state.targets.items()}

    def _last_sweeps(self) -> dict[str, float]:
        return {sweeper.examiner.name: sweeper.last_read_wall_seconds for sweeper in self._sweepers}

    def _oldest_by_store(self) -> dict[str, float]:
        return {name: _oldest_seconds(lane) for name, lane in self._state.lanes.items()}

    def latest_violations(self) -> Latest:
        """Return the last violation of each store and kind, among those of late: where to begin to look."""
        latest: Latest = {}
        for one in self._recent():
            latest.setdefault(one.store, {})[one.kind] = Exemplar({"violation": one.id}, 1.0, one.at_wall_seconds)
        return latest

    def _recent(self) -> list[Violation]:
        found = [violation for one in self._others for violation in one.recent]
        return sorted([*self._reporter.recent, *found], key=lambda one: one.at_wall_seconds)[-RECENT_VIOLATIONS_MAX:]

    def _recovering(self) -> list[UnfinishedRecovery]:
        """Return the faults after which something has not been seen to work again, by any verifier."""
        unfinished = self._state.recovery_times.unfinished(now_us())
        if not self._others:
            return unfinished
        known, found = self._counted.tally.recoveries, {}
        for one in (*unfinished, *(one for other in self._others for one in other.recovering)):
            recovery = known.get(f"{one.fault}/{one.store}")
            if recovery is not None and recovery.awaits and (one.fault, one.store) not in found:
                found[one.fault, one.store] = msgspec.structs.replace(one, awaits=recovery.awaits)
        return list(found.values())

    def _recovering_seconds(self) -> dict[str, float]:
        longest: dict[str, float] = {}
        for one in self._recovering():
            since = one.healed_seconds
            if one.planned and one.is_failing and since is not None:
                longest[one.store] = max(since, longest.get(one.store, 0.0))
        return longest

    def _faults_by_server(self) -> dict[str, dict[str, int]]:
        active: dict[str, dict[str, int]] = {}
        for window in self._state.faults.values():
            if window.is_active:
                active.setdefault(window.target, {})[window.kind] = 1
        return active

    def _without_search(self) -> list[str]:
        """Name the stores that can search and find next to nothing, although there was what to search for."""
        stores = self._counted.tally.stores
        names = [sweeper.examiner.name for sweeper in self._sweepers if sweeper.examiner.searches_per_read]
        return [name for name in names if stores[name].verified and stores[name].is_blind]

    def _suspicions(self) -> dict[str, int]:
        return {name: lane.count_suspicious() for name, lane in self._state.lanes.items()}

    def current(self) -> VerifierStatus:
        """Return the live status."""
        state, follower, now, others = self._counted, self._follower, now_us(), self._others
        windows, gauges = state.faults.values(), [other.gauges for other in others]
        own = None if state.sharing is None else self.own_gauges()
        swept = self._last_sweeps() if own is None else last_sweeps([own, *gauges])
        return VerifierStatus(
            **self._shared(self._latencies_of_late()),
            state=self.phase,
            at_us=now,
            at_wall_seconds=time.time(),
            turns=follower.turns,
            measured=measure(state, self._oldest_by_store()),
            ledger_lag_seconds=max(follower.lag_seconds, *(one.ledger_lag_seconds for one in gauges), 0.0),
            ledger_reachable=follower.is_reachable,
            unread=self._backpressure.unread + sum(one.unread_messages for one in gauges),
            load_held_back=self._backpressure.is_holding or any(one.load_held_back for one in gauges),
            last_sweep_wall_seconds=max(swept.values(), default=0.0),
            sessions_live=sum(lane.live for lane in state.lanes.values())
            + sum(sum(one.sessions_live.values()) for one in gauges),
            sessions_left=sum(sweeper.sessions_left for sweeper in self._sweepers)
            + sum(one.sessions_left for one in others),
            suspicions_open=sum(self._suspicions().values()) + sum(sum(one.suspicions_open.values()) for one in gauges),
            state_bytes=self.state_bytes + sum(one.state_bytes for one in gauges),
            restarts=state.tally.restarts,
            broken_stores=[error.line for error in state.tally.broken_stores()],
            faults_active=[ActiveFault(kind=one.kind, target=one.target) for one in windows if one.is_active],
            faults_total=len(state.faults),
            canaries=canaries_of(state),
            recalls={name: tally.recalls for name, tally in state.tally.stores.items()},
            recovering=self._recovering(),
            fault_failures=state.tally.fault_failures_told,
            operations=operation_counts(state),
            contracts=drift.contracts_now(state),
            configurations=drift.configurations_now(state),
            events=drift.latest_events(state),
            clocks=merged_clocks([clocks_of(state), *(one.clocks for one in others)]),
            clock_epsilon_seconds=max([state.clocks.epsilon_us / 1e6, *(one.clock_epsilon_seconds for one in others)]),
            warnings=self.warnings(),
            shards=[] if state.sharing is None or own is None else state.sharing.statuses(own, self._state),
        )

    def _latencies_of_late(self) -> list[LatencyResult]:
        """Return the percentiles, worked out every few seconds: it costs more than all the rest of a status."""
        if time.monotonic() >= self._latencies_until:
            self._latencies = latencies_of(self._counted)
            self._latencies_until = time.monotonic() + LATENCIES_SECONDS
        return self._latencies

    def _shared(self, latencies: list[LatencyResult]) -> dict[str, Any]:
        """Return what status and result both say."""
        state = self._counted
        return {
            "run": state.header.run,
            "totals": totals_of(state),
            "by_store": by_store(state),
            "violations_by": violations_by(state),
            "oldest_unverified_seconds": self._oldest_of_all(),
            "longest_unverified_seconds": longest_unverified_seconds(state),
            "findings": findings_of(state),
            "store_errors": store_errors_of(state.tally.store_errors.listed()),
            "recoveries": (recoveries := recoveries_of(state)),
            "stayed_clients": stayed_clients(recoveries),
            "latencies": latencies,
            "thresholds": self.thresholds(),
            "tried": tried_by(state),
        }

    def thresholds(self) -> list[ThresholdResult]:
        """Return how each threshold stands."""
        if not self._limits:
            return []
        state = self._counted
        measured = ThresholdInputs(latencies_of(state), recoveries_of(state), staleness_of(state))
        return judge(self._limits, state.header.stores, measured)

    def warnings(self) -> list[str]:
        warnings = [self._warning] if self._warning else []
        if self._evidence.failure:
            warnings.append(f"evidence cannot be written ({self._evidence.failure}); violations are still counted")
        if not self._follower.is_reachable:
            warnings.append("the ledger cannot be reached; writers wait for it")
        if self._backpressure.is_holding:
            warnings.append(self._backpressure.warning)
        warnings += self._state.clocks.warnings
        warnings += self._state.tally.damage + drift.drift_warnings(self._state)
        sharing = self._state.sharing
        return warnings + (sharing.warnings(warnings) if sharing is not None and sharing.shard.is_first else [])

    def oldest_unverified_seconds(self) -> float:
        return max(self._oldest_by_store().values(), default=0.0)

    def _oldest_of_all(self) -> float:
        others = (age for other in self._others for age in other.gauges.oldest_unverified_seconds.values())
        return max(self.oldest_unverified_seconds(), *others, 0.0)

    def left_over(self, unread: int) -> LeftOver:
        """Return what is unclear at the end; so many sessions gave no answer in the last sweep."""
        tracked = [one for one in self._state.tracked() if not one.tainted]
        return LeftOver(
            unverified=sum(len(one.book.pending) for one in tracked),
            suspicions_open=sum(1 for one in tracked if one.is_in_doubt),
            observations_unjudged=sum(
                len(noted) for lane in self._state.lanes.values() for noted in lane.observations.values()
            ),
            unread=unread,
            clock_doubts=clock_doubts(self._state),
        )

    def result(self, settings: VerifierSettings, left: LeftOver, *, browser_users: int = 0) -> Result:
        """Return the outcome of the run that has ended."""
        facts = self._facts(settings, left, browser_users)
        verdict, reasons = reach_verdict(facts if self._is_whole else part_of(facts))
        return self._result(verdict.value, reasons, settings, finished=True)

    @property
    def _is_whole(self) -> bool:
        return self._state.sharing is None or self._state.sharing.shard.is_first

    def _facts(self, settings: VerifierSettings, own: LeftOver, browser_users: int) -> Facts:
        state, sharing = self._counted, self._state.sharing
        left = [own, *(other.left for other in self._others if other.left is not None)]
        totals = totals_of(state)
        thresholds = self.thresholds()
        missing = [] if sharing is None or not self._is_whole else sharing.not_ended(self._state)
        return Facts(
            violations=totals.violations,
            verified=totals.verified,
            minimum_verified=settings.minimum_verified,
            unverifiable=totals.unverifiable,
            unverified=sum(one.unverified for one in left),
            acknowledged=totals.acknowledged,
            released=totals.released,
            oldest_unverified_seconds=self._oldest_of_all(),
            longest_unverified_seconds=longest_unverified_seconds(state),
            oldest_unverified_seconds_max=settings.unverified_age_max,
            suspicions_open=sum(one.suspicions_open for one in left),
            stores_without_verified=[name for name, tally in state.tally.stores.items() if not tally.verified],
            stores_without_search=self._without_search(),
            browsers_silent=browser_users > 0 and not state.tally.browser_acknowledged,
            operations=operation_counts(state),
            observations_dropped=state.tally.observations_suppressed,
            observations_unjudged=sum(one.observations_unjudged for one in left),
            undecided=totals.undecided,
            clock_doubts=list(dict.fromkeys(doubt for one in left for doubt in one.clock_doubts)),
            reads_failed_at_end=sum(one.unread for one in left),
            faults_not_injected=sum(sum(kinds.values()) for kinds in state.tally.fault_failures.values()),
            verifiers_missing=[sharing.line_of(shard) for shard in missing] if sharing is not None else [],
            thresholds_missed=[one.line for one in thresholds if one.state is ThresholdState.MISSED],
            thresholds_without_samples=[one.line for one in thresholds if one.state is ThresholdState.NO_SAMPLES],
            **_canary_facts(state, settings),
        )

    def result_so_far(self, settings: VerifierSettings) -> Result:
        """Return how it stands: a violation stays one, and nothing is a pass before the end."""
        found = self._counted.tally.violations
        verdict = Verdict.VIOLATION.value if found else UNDECIDED
        reasons = [f"{found} violations of the contract"] if found else []
        return self._result(verdict, reasons, settings, finished=False)

    def _result(self, verdict: str, reasons: list[str], settings: VerifierSettings, *, finished: bool) -> Result:
        state = self._counted
        return Result(
            **self._shared(latencies_of(self._counted)),
            finished=finished,
            verdict=verdict,
            reasons=reasons + state.tally.fault_failures_told + [f"warning: {warning}" for warning in self.warnings()],
            started_wall_seconds=state.header.started_wall_seconds,
            ended_wall_seconds=time.time(),
            evidence=self._first_evidence(),
            violations_unlisted=self._evidence.violations_unlisted
            + sum(one.violations_unlisted for one in self._others),
            canaries=canaries_of(state) if settings.canary else None,
            contracts={store: drift.obtained(state, store) for store in state.header.stores},
            notes=drift.drift_notes(state),
            seed=str(state.header.seed),
            promises={store: contract.clauses() for store, contract in state.header.contracts.items()},
            servers={store: list(targets) for store, targets in state.targets.items()},
            configurations=state.header.configurations,
            faults=faults_of(state, clock_offset_us()),
            violations=msgspec.convert(self._recent(), list[ViolationHead], from_attributes=True),
        )

    def _first_evidence(self) -> list[str]:
        # The folder is looked through only when there is something new in it, for it may hold thousands.
        if self._state.tally.violations != self._evidence_shown[0]:
            self._evidence_shown = (self._state.tally.violations, self._evidence.first(EVIDENCE_SHOWN_MAX))
        return self._evidence_shown[1]


def part_of(facts: Facts) -> Facts:
    """Leave out of the facts of one verifier of several what only all of them together can answer for."""
    return msgspec.structs.replace(
        facts,
        verified=max(1, facts.verified),
        minimum_verified=0,
        stores_without_verified=[],
        stores_without_search=[],
        browsers_silent=False,
        operations=[],
        faults_not_injected=0,
        thresholds_missed=[],
        thresholds_without_samples=[],
    )


def settings_seconds(settings: SoakSettings) -> dict[str, float]:
    """Return the settings that alerts are measured by; one that sets no limit is infinite."""
    verifier, recovery_max = settings.verifier, settings.faults.recovery_max
    return {
        "faults.recovery_max": float("inf") if recovery_max is None else recovery_max,
        "clock.error_max": settings.clock.error_max,
        "load.think": settings.load.think,
        "verifier.canary": verifier.canary,
        "verifier.canary_deadline": verifier.canary_deadline,
        "verifier.coverage": verifier.coverage,
        "verifier.unverified_age_max": verifier.unverified_age_max,
    }


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


def _oldest_seconds(lane: StoreQueues) -> float:
    oldest = lane.oldest_unverified()
    return 0.0 if oldest is None else max(0.0, (now_us() - oldest) / 1e6)


def _canary_facts(state: State, settings: VerifierSettings) -> dict[str, Any]:
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
