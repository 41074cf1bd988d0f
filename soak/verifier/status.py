"""How it goes, for people, scrapes and the final result."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from prometheus_client.core import Exemplar

from soak.checker.verdict import Facts, Verdict, reach_verdict
from soak.clock import clock_offset_us, now_us
from soak.ledger.records import this_host
from soak.metrics import Gauges, Latest
from soak.settings import SoakSettings, VerifierSettings
from soak.verifier import drift
from soak.verifier.account import (
    by_store,
    canaries_of,
    canary_facts,
    clock_doubts,
    clocks_of,
    coverage_ages,
    faults_of,
    findings_of,
    longest_unverified_seconds,
    measure,
    oldest_seconds,
    operation_counts,
    recoveries_of,
    staleness_of,
    stayed_clients,
    store_errors_of,
    totals_of,
    tried_by,
    violations_by,
)
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.follower import Follower
from soak.verifier.journal import Violation
from soak.verifier.latencies import latencies_of
from soak.verifier.merging import last_sweeps, merged_clocks, merged_gauges
from soak.verifier.progress import Backpressure
from soak.verifier.reporter import RECENT_VIOLATIONS_MAX, Reporter
from soak.verifier.result import (
    UNDECIDED,
    ActiveFault,
    LatencyResult,
    Result,
    ThresholdResult,
    ThresholdState,
    UnfinishedRecovery,
    VerifierStatus,
    ViolationHead,
)
from soak.verifier.sharing import LeftOver, ShardReport
from soak.verifier.state import State
from soak.verifier.sweeper import Sweeper
from soak.verifier.tally import Tally
from soak.verifier.thresholds import ThresholdInputs, judge

EVIDENCE_SHOWN_MAX = 20
LATENCIES_SECONDS = 3.0
"""How old the percentiles of a live status may be; those of a result are of its moment."""


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
        return {name: oldest_seconds(lane) for name, lane in self._state.lanes.items()}

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
            **canary_facts(state, settings),
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
