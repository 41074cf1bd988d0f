"""How it goes, for people, scrapes and the final result."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from soak.metrics import Gauges
from soak.model.verdict import Facts, reach_verdict
from soak.settings import VerifierSettings
from soak.verifier import drift, result
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.examiner import now_us
from soak.verifier.follower import Follower
from soak.verifier.reporter import Reporter
from soak.verifier.state import Lane, State
from soak.verifier.sweeper import Sweeper

EVIDENCE_SHOWN_MAX = 20


class Status:
    """Answers how the verification stands."""

    def __init__(
        self,
        state: State,
        sweepers: list[Sweeper],
        follower: Follower,
        reporter: Reporter,
        evidence: EvidenceFolder,
    ) -> None:
        self._state = state
        self._sweepers = sweepers
        self._follower = follower
        self._reporter = reporter
        self._evidence = evidence
        self.phase = "following"
        self.state_bytes = 0
        self.loop_delay_seconds = 0.0
        self._warning = ""

    def warn(self, text: str) -> None:
        self._warning = text

    def gauges(self) -> Gauges:
        lanes = self._state.lanes
        return Gauges(
            oldest_unverified_seconds={name: _oldest_seconds(lane) for name, lane in lanes.items()},
            last_sweep_timestamp_seconds={s.examiner.name: s.last_read_wall_seconds for s in self._sweepers},
            sessions_live={name: lane.live for name, lane in lanes.items()},
            suspicions_open=self._suspicions(),
            faults_active=sum(window.is_active for window in self._state.faults.values()),
            ledger_lag_seconds=self._follower.lag_seconds,
            ledger_reachable=self._follower.is_reachable,
            state_bytes=self.state_bytes,
            loop_delay_seconds=self.loop_delay_seconds,
            contracts=self._state.header.contracts,
            origins=self._state.header.origins,
            configuration_drift=drift.drift_now(self._state),
            unmet_clauses=drift.unmet_now(self._state),
        )

    def _suspicions(self) -> dict[str, int]:
        return {name: lane.count_suspicious() for name, lane in self._state.lanes.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the live status; the keys are part of the interface."""
        state = self._state
        return {
            "run": state.header.run,
            "state": self.phase,
            "turns": self._follower.turns,
            "totals": msgspec.to_builtins(result.totals_of(state)),
            "by_store": msgspec.to_builtins(result.by_store(state)),
            "violations_by": msgspec.to_builtins(result.violations_by(state)),
            "ledger_lag_seconds": self._follower.lag_seconds,
            "ledger_reachable": self._follower.is_reachable,
            "oldest_unverified_seconds": self.oldest_unverified_seconds(),
            "last_sweep_wall_seconds": max((s.last_read_wall_seconds for s in self._sweepers), default=0.0),
            "sessions_live": sum(lane.live for lane in state.lanes.values()),
            "suspicions_open": sum(self._suspicions().values()),
            "state_bytes": self.state_bytes,
            "restarts": state.tally.restarts,
            "recent_violations": [msgspec.to_builtins(violation) for violation in self._reporter.recent],
            "faults_active": [
                {"kind": window.kind, "target": window.target} for window in state.faults.values() if window.is_active
            ],
            "faults_total": len(state.faults),
            "canaries": [msgspec.to_builtins(canary) for canary in result.canaries_of(state)],
            "recalls": {name: tally.recalls for name, tally in state.tally.stores.items()},
            "recovering": state.recovery_times.unfinished(now_us()),
            "fault_failures": state.tally.fault_failures_told,
            "recoveries": [msgspec.to_builtins(recovery) for recovery in result.recoveries_of(state)],
            **drift.described(state),
            "warnings": self.warnings(),
        }

    def warnings(self) -> list[str]:
        warnings = [self._warning] if self._warning else []
        if self._evidence.failure:
            warnings.append(f"evidence cannot be written ({self._evidence.failure}); violations are still counted")
        if not self._follower.is_reachable:
            warnings.append("the ledger cannot be reached; writers wait for it")
        return warnings + drift.drift_warnings(self._state)

    def oldest_unverified_seconds(self) -> float:
        return max((_oldest_seconds(lane) for lane in self._state.lanes.values()), default=0.0)

    def result(self, settings: VerifierSettings, *, unread: int) -> result.Result:
        """Return the outcome of the run as it stands."""
        state = self._state
        watched = [one for one in state.watched() if not one.tainted]
        totals = result.totals_of(state)
        verdict, reasons = reach_verdict(
            Facts(
                violations=totals.violations,
                verified=totals.verified,
                minimum_verified=settings.minimum_verified,
                unverifiable=totals.unverifiable,
                unverified=sum(len(one.book.pending) for one in watched),
                oldest_unverified_seconds=self.oldest_unverified_seconds(),
                oldest_unverified_seconds_max=settings.unverified_age_max,
                suspicions_open=sum(1 for one in watched if one.suspicions),
                stores_without_verified=[name for name, tally in state.tally.stores.items() if not tally.verified],
                reads_failed_at_end=unread,
                faults_not_injected=sum(sum(kinds.values()) for kinds in state.tally.fault_failures.values()),
                **_canary_facts(state, settings),
            )
        )
        return result.Result(
            run=state.header.run,
            verdict=verdict.value,
            reasons=reasons + state.tally.fault_failures_told + [f"warning: {warning}" for warning in self.warnings()],
            started_wall_seconds=state.header.started_wall_seconds,
            ended_wall_seconds=time.time(),
            totals=totals,
            violations_by=result.violations_by(state),
            by_store=result.by_store(state),
            oldest_unverified_seconds=self.oldest_unverified_seconds(),
            evidence=self._evidence.first(EVIDENCE_SHOWN_MAX),
            canaries=result.canaries_of(state) if settings.canary else None,
            contracts={store: drift.obtained(state, store) for store in state.header.stores},
            recoveries=result.recoveries_of(state),
            notes=drift.drift_notes(state),
        )


def _oldest_seconds(lane: Lane) -> float:
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
