"""How the run stands while it goes on: clean so far, violated, or not to be said yet, and why.

It is the verdict's own rule applied early, with this difference: what is only under way, such as a message that is
about to be read back, is no doubt yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from soak.checker.kinds import Kind
from soak.checker.verdict import Facts, OperationCount, reach_verdict

CLEAN = "clean"
VIOLATION = "violation"
UNSAID = "unsaid"
KINDS_TOLD_MAX = 6
FINDINGS_TOLD_MAX = 6


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to reach before its silence means something."""

    minimum_verified: int
    unverified_seconds_max: float
    tests_alarm: bool


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A word for machines, a headline for people, and the reasons."""

    word: str
    """`clean`, `violation` or `unsaid`."""
    headline: str
    reasons: list[str]


def stands(
    phase: str, status: Mapping[str, Any] | None, problems: Iterable[str], measure: Measure, violations_known: int = 0
) -> Standing:
    """Say how it stands, from the verifier's status; `violations_known` were counted when it last answered."""
    violations = max(violations_known, _total(status, "violations"))
    if violations:
        headline = f"{violations:,} violation{'' if violations == 1 else 's'} of the contract"
        return Standing(word=VIOLATION, headline=headline, reasons=_findings(status) + _silence(phase, status))
    doubts = [*_silence(phase, status), *problems]
    if status is not None:
        doubts += _doubts(status, measure)
    if doubts:
        return Standing(word=UNSAID, headline="Cannot say yet", reasons=doubts)
    return Standing(word=CLEAN, headline="Clean so far", reasons=_assurance(status or {}))


def _silence(phase: str, status: Mapping[str, Any] | None) -> list[str]:
    if status is not None:
        return [] if status.get("ledger_reachable", True) else ["the ledger cannot be reached; nothing new is judged"]
    return ["the soak is starting" if phase == "starting" else "the verifier does not answer"]


def _doubts(status: Mapping[str, Any], measure: Measure) -> list[str]:
    canaries = status.get("canaries") or [] if measure.tests_alarm else []
    facts = Facts(
        violations=0,
        verified=_total(status, "verified"),
        minimum_verified=measure.minimum_verified,
        unverifiable=_total(status, "unverifiable"),
        unverified=0,
        oldest_unverified_seconds=float(status.get("oldest_unverified_seconds") or 0.0),
        longest_unverified_seconds=float(status.get("longest_unverified_seconds") or 0.0),
        oldest_unverified_seconds_max=measure.unverified_seconds_max,
        suspicions_open=0,
        stores_without_verified=[one["store"] for one in status.get("by_store") or [] if not one["verified"]],
        faults_not_injected=len(status.get("fault_failures") or []),
        operations=msgspec.convert(status.get("operations") or [], list[OperationCount]),
        canaries_missed={one["store"]: one["missed"] for one in canaries},
        canaries_early={one["store"]: one["early"] for one in canaries},
    )
    _, doubts = reach_verdict(facts)
    untested = [one["store"] for one in canaries if not (one["detected"] or one["missed"] or one["early"])]
    return doubts + [f"the alarm has not been tested on {store} yet" for store in untested]


def _findings(status: Mapping[str, Any] | None) -> list[str]:
    """Say what was found, one line for each bug."""
    findings = (status or {}).get("findings") or []
    told = [str(one["headline"]) for one in findings[:FINDINGS_TOLD_MAX]]
    if len(findings) > FINDINGS_TOLD_MAX:
        told.append(f"and {len(findings) - FINDINGS_TOLD_MAX} more findings")
    return told or _kinds(status)


def _kinds(status: Mapping[str, Any] | None) -> list[str]:
    found = sorted((status or {}).get("violations_by") or [], key=lambda one: -int(one["count"]))
    told = [f"{one['count']:,} {one['kind']} on {one['store']}: {_sentence(one['kind'])}" for one in found]
    return told[:KINDS_TOLD_MAX] + [f"and {len(told) - KINDS_TOLD_MAX} more kinds"] * (len(told) > KINDS_TOLD_MAX)


def _sentence(kind: str) -> str:
    return Kind(kind).sentence if kind in {known.value for known in Kind} else "unknown to this page"


def _assurance(status: Mapping[str, Any]) -> list[str]:
    verified, acknowledged = _total(status, "verified"), _total(status, "acknowledged")
    told = [f"{verified:,} of {acknowledged:,} acknowledged messages were read back as they were written"]
    if tried := (status.get("tried") or {}).get("text"):
        told.append(str(tried))
    canaries = status.get("canaries") or []
    if rang := sum(one["detected"] for one in canaries):
        told.append(f"the alarm was tested {rang} time{'' if rang == 1 else 's'}, and rang each time")
    if suspicions := int(status.get("suspicions_open") or 0):
        told.append(f"{suspicions} suspicion{' is' if suspicions == 1 else 's are'} being looked into")
    return told


def _total(status: Mapping[str, Any] | None, name: str) -> int:
    return int(((status or {}).get("totals") or {}).get(name) or 0)
