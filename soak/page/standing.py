"""The verdict so far: clean, violation, or cannot say yet, with reasons.

It is the verdict's own rule applied early. The difference: what is in progress, such as a message that is about to be
read back, is no doubt yet.
"""

from __future__ import annotations

import msgspec

from soak.api.status import SoakStatus, VerifierStatus
from soak.checker.kinds import Kind
from soak.checker.verdict import Facts, reach_verdict

CLEAN = "clean"
VIOLATION = "violation"
UNSAID = "unsaid"
KINDS_SHOWN_MAX = 6
FINDINGS_SHOWN_MAX = 6


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to reach before no violation means something."""

    minimum_verified: int
    unverified_seconds_max: float
    tests_alarm: bool


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A word for machines, a headline for people, and the reasons."""

    word: str
    """`clean`, `violation` or `unsaid`."""
    headline: str
    reasons: list[str]


def assess(snapshot: SoakStatus, measure: Measure, violations_known: int = 0) -> Standing:
    """Apply the verdict's rule early; `violations_known` were counted when the verifier last answered."""
    violations = max(violations_known, snapshot.totals.violations)
    if violations:
        headline = f"{violations:,} violation{'' if violations == 1 else 's'} of the contract"
        reasons = _findings(snapshot.verifier) + _silence(snapshot)
        return Standing(word=VIOLATION, headline=headline, reasons=reasons)
    doubts = [*_silence(snapshot), *snapshot.problems]
    if snapshot.verifier is not None:
        doubts += _doubts(snapshot.verifier, measure)
    if snapshot.verifier is None or doubts:
        return Standing(word=UNSAID, headline="Cannot say yet", reasons=doubts)
    return Standing(word=CLEAN, headline="Clean so far", reasons=_assurance(snapshot.verifier))


def _silence(snapshot: SoakStatus) -> list[str]:
    if snapshot.verifier is None:
        return ["the soak is starting" if snapshot.phase == "starting" else "the verifier does not answer"]
    return [] if snapshot.verifier.ledger_reachable else ["the ledger cannot be reached; nothing new is verified"]


def _doubts(status: VerifierStatus, measure: Measure) -> list[str]:
    canaries = status.canaries if measure.tests_alarm else []
    facts = Facts(
        violations=0,
        verified=status.totals.verified,
        minimum_verified=measure.minimum_verified,
        unverifiable=status.totals.unverifiable,
        unverified=0,
        oldest_unverified_seconds=status.oldest_unverified_seconds,
        longest_unverified_seconds=status.longest_unverified_seconds,
        oldest_unverified_seconds_max=measure.unverified_seconds_max,
        suspicions_open=0,
        stores_without_verified=[one.store for one in status.by_store if not one.verified],
        faults_not_injected=len(status.fault_failures),
        operations=status.operations,
        canaries_missed={one.store: one.missed for one in canaries},
        canaries_early={one.store: one.early for one in canaries},
    )
    _, doubts = reach_verdict(facts)
    untested = [one.store for one in canaries if not (one.detected or one.missed or one.early)]
    return doubts + [f"self-check: no planted error detected on {store} yet" for store in untested]


def _findings(status: VerifierStatus | None) -> list[str]:
    """Return one line for each bug found."""
    if status is None:
        return []
    lines = [one.headline for one in status.findings[:FINDINGS_SHOWN_MAX]]
    if len(status.findings) > FINDINGS_SHOWN_MAX:
        lines.append(f"and {len(status.findings) - FINDINGS_SHOWN_MAX} more findings")
    return lines or _kinds(status)


def _kinds(status: VerifierStatus) -> list[str]:
    found = sorted(status.violations_by, key=lambda one: -one.count)
    lines = [f"{one.count:,} {one.kind} on {one.store}: {_sentence(one.kind)}" for one in found]
    return lines[:KINDS_SHOWN_MAX] + [f"and {len(lines) - KINDS_SHOWN_MAX} more kinds"] * (len(lines) > KINDS_SHOWN_MAX)


def _sentence(kind: str) -> str:
    return Kind(kind).sentence if kind in {known.value for known in Kind} else "unknown to this page"


def _assurance(status: VerifierStatus) -> list[str]:
    totals = status.totals
    lines = [
        f"{totals.verified:,} of {totals.acknowledged:,} acknowledged messages were read back as they were written"
    ]
    if status.tried.text:
        lines.append(status.tried.text)
    if detected := sum(one.detected for one in status.canaries):
        lines.append(f"self-check: {detected} of {detected} planted errors detected")
    if suspicions := status.suspicions_open:
        lines.append(f"{suspicions} suspicion{'' if suspicions == 1 else 's'} under investigation")
    return lines
