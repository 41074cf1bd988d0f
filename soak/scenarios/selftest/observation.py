"""What the verifier found in one store: kinds, causes, how soon, and its verdict."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from soak.checker.causes import Diagnosis, candidates
from soak.checker.verdict import Facts, Verdict, reach_verdict
from soak.clock import now_us
from soak.faults.window import Injected
from soak.json_input import decode_json
from soak.report.diagnosis import shared_by
from soak.scenarios.selftest.load import AckTimes
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.journal import Violation
from soak.verifier.state import State

VERIFIED_MIN = 50
"""Fewer verified messages do not show that a store is right."""


class EvidenceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the evidence folder, as far as a trial needs it. Times are in microseconds of CLOCK_MONOTONIC."""

    kind: str
    cause: str
    count: int
    found: int
    acknowledged: int | None
    message: str
    said: list[str] = []
    """What is wrong with it, and what is known of it, in the sentences that a report shows."""
    unfounded: list[str] = []
    """Facts that the rules would have stated, and that the evidence does not support."""


class StoreObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one store."""

    store: str
    acknowledged: int
    verified: int
    tolerated: int
    violations: dict[str, int]
    healed: dict[str, int]
    verdict: str
    reasons: list[str]
    shadowed_reads: int = 0
    shadowed_lag_seconds_max: float = 0.0
    evidence: list[EvidenceSummary] = []
    in_common: list[str] = []
    """What all violations of one finding have in common, in the sentences that a report shows."""
    fault_started: int | None = None
    fault_ended: int | None = None

    @property
    def words(self) -> str:
        """What was found, the most frequent first, or the verdict where it was nothing."""
        return ", ".join(f"{count} {kind}" for kind, count in Counter(self.violations).most_common()) or self.verdict


def look(state: State, store: str) -> StoreObservation:
    """Sum up what the verifier knows of one store."""
    tally = state.tally.stores[store]
    verdict, reasons = _verdict(state, store)
    return StoreObservation(
        store=store,
        acknowledged=tally.acknowledged,
        verified=tally.verified,
        tolerated=tally.tolerated,
        violations={kind: count for kind, count in tally.violations.items() if count},
        healed={kind: count for kind, count in tally.healed.items() if count},
        verdict=verdict.value,
        reasons=reasons,
        shadowed_reads=tally.shadowed_reads,
        shadowed_lag_seconds_max=tally.shadowed_lag_seconds_max,
    )


def read_stories(
    seen: StoreObservation, folder: Path, acknowledged: AckTimes, fault: Injected | None
) -> StoreObservation:
    """Add what the evidence folder holds, and when the fault was."""
    return msgspec.structs.replace(
        seen,
        evidence=_stories(folder, seen.store, acknowledged),
        in_common=_in_common(folder, seen.store),
        fault_started=None if fault is None else fault.started,
        fault_ended=None if fault is None else fault.ended,
    )


def _verdict(state: State, store: str) -> tuple[Verdict, list[str]]:
    """Give the verdict of a run that had this store alone."""
    tally = state.tally.stores[store]
    watched = [one for one in state.tracked() if one.book.store == store and not one.tainted]
    return reach_verdict(
        Facts(
            violations=sum(tally.violations.values()),
            verified=tally.verified,
            minimum_verified=VERIFIED_MIN,
            unverifiable=tally.unverifiable + state.tally.batches_missing,
            unverified=sum(len(one.book.pending) for one in watched),
            oldest_unverified_seconds=0.0,
            oldest_unverified_seconds_max=1.0,
            suspicions_open=sum(1 for one in watched if one.is_in_doubt),
            stores_without_verified=[] if tally.verified else [store],
            reads_failed_at_end=sum(1 for one in watched if state.end is not None and one.last_whole <= state.end.at),
        )
    )


def _unfounded(story: dict[str, Any]) -> list[str]:
    clues = msgspec.convert(story["diagnosis"], Diagnosis).clues
    return [repr(fact) for fact in candidates(clues).all_facts if not fact.holds(clues)]


def _said(story: dict[str, Any]) -> list[str]:
    cause = story["probable_cause"]
    return [story["detail"], *cause["facts"], *story["known"]]


def _in_common(folder: Path, store: str) -> list[str]:
    """Group the journal into findings, and say what all violations of each have in common."""
    findings: dict[tuple[str, str], list[Violation]] = {}
    for line in EvidenceFolder(folder, files_max_per_kind=0).since(0):
        if isinstance(line, Violation) and line.store == store:
            findings.setdefault((line.kind, line.cause), []).append(line)
    return [sentence for finding in findings.values() for sentence in shared_by(finding)]


def _stories(folder: Path, store: str, acknowledged: AckTimes) -> list[EvidenceSummary]:
    """Read the evidence, oldest first."""
    offset_us = time.time_ns() // 1000 - now_us()
    # Where it is not known which message it was, no earlier than the first of its session.
    begun: dict[str, int] = {}
    for name, at in acknowledged.items():
        begun.setdefault(name.rsplit("/", 2)[0], at)
    summaries = []
    for path in (folder / "evidence").glob("*.json"):
        story: dict[str, Any] = decode_json(path.read_bytes())
        if story["store"] != store:
            continue
        message, life = story["message"], story["life"]
        # Of a message of another session, the name is preceded by its run.
        name = message if message in acknowledged else message.partition(":")[2]
        summaries.append(
            EvidenceSummary(
                kind=story["kind"],
                cause=story["probable_cause"]["cause"],
                count=story["count"],
                found=int(story["found_at_wall_seconds"] * 1e6) - offset_us,
                acknowledged=acknowledged.get(name) or life.get("acknowledged_us") or begun.get(story["session"]),
                message=message,
                said=_said(story),
                unfounded=_unfounded(story),
            )
        )
    return sorted(summaries, key=lambda one: one.found)
