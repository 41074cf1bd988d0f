"""How it goes, for people, scrapes and the final result."""

from __future__ import annotations

import math
import time
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
from soak.verifier.latencies import latencies_of
from soak.verifier.progress import Backpressure
from soak.verifier.reporter import Reporter
from soak.verifier.result import (
    UNDECIDED,
    ActiveFault,
    CanaryResult,
    ClockStatus,
    FaultResult,
    KindCount,
    Measured,
    RecoveryResult,
    Result,
    StoreErrorResult,
    StoreResult,
    ThresholdResult,
    ThresholdState,
    Totals,
    VerifierStatus,
    ViolationHead,
)
from soak.verifier.state import State, StoreQueues
from soak.verifier.sweeper import Sweeper
from soak.verifier.thresholds import ThresholdInputs, judge

EVIDENCE_SHOWN_MAX = 20
RECOVERIES_LISTED_MAX = 200
FAULTS_LISTED_MAX = 256
STORE_ERRORS_LISTED_MAX = 64

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

    def warn(self, text: str) -> None:
        self._warning = text

    def gauges(self) -> Gauges:
        lanes = self._state.lanes
        return Gauges(
            oldest_unverified_seconds=self._oldest_by_store(),
            last_sweep_timestamp_seconds={s.examiner.name: s.last_read_wall_seconds for s in self._sweepers},
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

    def _oldest_by_store(self) -> dict[str, float]:
        return {name: _oldest_seconds(lane) for name, lane in self._state.lanes.items()}

    def latest_violations(self) -> Latest:
        """Return the last violation of each store and kind, among those of late: where to begin to look."""
        latest: Latest = {}
        for one in self._reporter.recent:
            latest.setdefault(one.store, {})[one.kind] = Exemplar({"violation": one.id}, 1.0, one.at_wall_seconds)
        return latest

    def _recovering_seconds(self) -> dict[str, float]:
        longest: dict[str, float] = {}
        for one in self._state.recovery_times.unfinished(now_us()):
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
        stores = self._state.tally.stores
        names = [sweeper.examiner.name for sweeper in self._sweepers if sweeper.examiner.searches_per_read]
        return [name for name in names if stores[name].verified and stores[name].is_blind]

    def _suspicions(self) -> dict[str, int]:
        return {name: lane.count_suspicious() for name, lane in self._state.lanes.items()}

    def current(self) -> VerifierStatus:
        """Return the live status."""
        state, follower, now = self._state, self._follower, now_us()
        windows = state.faults.values()
        return VerifierStatus(
            **self._shared(),
            state=self.phase,
            at_us=now,
            at_wall_seconds=time.time(),
            turns=follower.turns,
            measured=measure(state, self._oldest_by_store()),
            ledger_lag_seconds=follower.lag_seconds,
            ledger_reachable=follower.is_reachable,
            unread=self._backpressure.unread,
            load_held_back=self._backpressure.is_holding,
            last_sweep_wall_seconds=max((s.last_read_wall_seconds for s in self._sweepers), default=0.0),
            sessions_live=sum(lane.live for lane in state.lanes.values()),
            sessions_left=sum(sweeper.sessions_left for sweeper in self._sweepers),
            suspicions_open=sum(self._suspicions().values()),
            state_bytes=self.state_bytes,
            restarts=state.tally.restarts,
            broken_stores=[error.line for error in state.tally.broken_stores()],
            faults_active=[ActiveFault(kind=one.kind, target=one.target) for one in windows if one.is_active],
            faults_total=len(state.faults),
            canaries=canaries_of(state),
            recalls={name: tally.recalls for name, tally in state.tally.stores.items()},
            recovering=state.recovery_times.unfinished(now),
            fault_failures=state.tally.fault_failures_told,
            operations=operation_counts(state),
            contracts=drift.contracts_now(state),
            configurations=drift.configurations_now(state),
            events=drift.latest_events(state),
            clocks=clocks_of(state),
            clock_epsilon_seconds=state.clocks.epsilon_us / 1e6,
            warnings=self.warnings(),
        )

    def _shared(self) -> dict[str, Any]:
        """Return what status and result both say."""
        state = self._state
        return {
            "run": state.header.run,
            "totals": totals_of(state),
            "by_store": by_store(state),
            "violations_by": violations_by(state),
            "oldest_unverified_seconds": self.oldest_unverified_seconds(),
            "longest_unverified_seconds": longest_unverified_seconds(state),
            "findings": findings_of(state),
            "store_errors": store_errors_of(state.tally.store_errors.listed()),
            "recoveries": recoveries_of(state),
            "latencies": latencies_of(state),
            "thresholds": self.thresholds(),
            "tried": tried_by(state),
        }

    def thresholds(self) -> list[ThresholdResult]:
        """Return how each threshold stands."""
        if not self._limits:
            return []
        state = self._state
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
        return warnings + self._state.tally.damage + drift.drift_warnings(self._state)

    def oldest_unverified_seconds(self) -> float:
        return max(self._oldest_by_store().values(), default=0.0)

    def result(self, settings: VerifierSettings, *, unread: int, browser_users: int = 0) -> Result:
        """Return the outcome of the run that has ended."""
        state = self._state
        tracked = [one for one in state.tracked() if not one.tainted]
        totals = totals_of(state)
        thresholds = self.thresholds()
        verdict, reasons = reach_verdict(
            Facts(
                violations=totals.violations,
                verified=totals.verified,
                minimum_verified=settings.minimum_verified,
                unverifiable=totals.unverifiable,
                unverified=sum(len(one.book.pending) for one in tracked),
                acknowledged=totals.acknowledged,
                released=totals.released,
                oldest_unverified_seconds=self.oldest_unverified_seconds(),
                longest_unverified_seconds=longest_unverified_seconds(state),
                oldest_unverified_seconds_max=settings.unverified_age_max,
                suspicions_open=sum(1 for one in tracked if one.is_in_doubt),
                stores_without_verified=[name for name, tally in state.tally.stores.items() if not tally.verified],
                stores_without_search=self._without_search(),
                browsers_silent=browser_users > 0 and not state.tally.browser_acknowledged,
                operations=operation_counts(state),
                observations_dropped=state.tally.observations_suppressed,
                observations_unjudged=sum(
                    len(noted) for lane in state.lanes.values() for noted in lane.observations.values()
                ),
                undecided=totals.undecided,
                clock_doubts=clock_doubts(state),
                reads_failed_at_end=unread,
                faults_not_injected=sum(sum(kinds.values()) for kinds in state.tally.fault_failures.values()),
                thresholds_missed=[one.line for one in thresholds if one.state is ThresholdState.MISSED],
                thresholds_without_samples=[one.line for one in thresholds if one.state is ThresholdState.NO_SAMPLES],
                **_canary_facts(state, settings),
            )
        )
        return self._result(verdict.value, reasons, settings, finished=True)

    def result_so_far(self, settings: VerifierSettings) -> Result:
        """Return how it stands: a violation stays one, and nothing is a pass before the end."""
        found = self._state.tally.violations
        verdict = Verdict.VIOLATION.value if found else UNDECIDED
        reasons = [f"{found} violations of the contract"] if found else []
        return self._result(verdict, reasons, settings, finished=False)

    def _result(self, verdict: str, reasons: list[str], settings: VerifierSettings, *, finished: bool) -> Result:
        state = self._state
        return Result(
            **self._shared(),
            finished=finished,
            verdict=verdict,
            reasons=reasons + state.tally.fault_failures_told + [f"warning: {warning}" for warning in self.warnings()],
            started_wall_seconds=state.header.started_wall_seconds,
            ended_wall_seconds=time.time(),
            evidence=self._first_evidence(),
            violations_unlisted=self._evidence.violations_unlisted,
            canaries=canaries_of(state) if settings.canary else None,
            contracts={store: drift.obtained(state, store) for store in state.header.stores},
            notes=drift.drift_notes(state),
            seed=str(state.header.seed),
            promises={store: contract.clauses() for store, contract in state.header.contracts.items()},
            servers={store: list(targets) for store, targets in state.targets.items()},
            configurations=state.header.configurations,
            faults=faults_of(state, clock_offset_us()),
            violations=msgspec.convert(list(self._reporter.recent), list[ViolationHead], from_attributes=True),
        )

    def _first_evidence(self) -> list[str]:
        # The folder is looked through only when there is something new in it, for it may hold thousands.
        if self._state.tally.violations != self._evidence_shown[0]:
            self._evidence_shown = (self._state.tally.violations, self._evidence.first(EVIDENCE_SHOWN_MAX))
        return self._evidence_shown[1]


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
            is_at_least=recovery.is_at_least,
            is_unread=recovery.is_unread,
            tolerated=recovery.tolerated,
            lost=recovery.lost,
            kept=recovery.is_kept,
            lasted_seconds=_rounded(recovery.lasted_seconds),
            read_seconds=_rounded(recovery.read_seconds),
            write_seconds=_rounded(recovery.write_seconds),
            unknown=recovery.unknown,
            surfaced=recovery.surfaced,
            errors=recovery.errors,
        )
        for recovery in settled[-RECOVERIES_LISTED_MAX:]
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
