"""The verdict as the page shows it: a word, a headline and the reasons, while a run goes on and after it.

While it goes on it is the verdict's own rule applied early. The difference: what is in progress, such as a message that
is about to be read back, is no doubt yet.
"""

from __future__ import annotations

import msgspec

from soak.api.status import SoakStatus, VerifierStatus
from soak.checker.kinds import Kind
from soak.checker.verdict import Facts, Verdict, reach_verdict
from soak.report.headline import VIOLATION, further_reasons, headline_of, headline_of_run
from soak.report.outcome import RunOutcome
from soak.verifier.result import ThresholdState

__all__ = ["CLEAN", "INTERRUPTED", "THRESHOLD", "UNSAID", "VIOLATION", "Measure", "Standing", "assess", "conclude"]

CLEAN = "clean"
UNSAID = "unsaid"
THRESHOLD = "threshold"
INTERRUPTED = "interrupted"
KINDS_SHOWN_MAX = 6


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to reach before no violation means something."""

    minimum_verified: int
    unverified_seconds_max: float
    tests_alarm: bool


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A word for machines, a headline for people, and the reasons."""

    word: str
    """`clean`, `violation`, `threshold`, `unsaid` or `interrupted`."""
    headline: str
    reasons: list[str]


def assess(snapshot: SoakStatus, measure: Measure, known: VerifierStatus | None = None) -> Standing:
    """Apply the verdict's rule early; `known` is what the verifier last answered, which may be a while ago."""
    counting = snapshot.verifier or known
    if counting is not None and (violations := counting.totals.violations):
        return _violated(violations, counting, [*_silence(snapshot), *_missed(counting)])
    doubts = [*_silence(snapshot), *snapshot.problems]
    if snapshot.verifier is not None:
        doubts += _doubts(snapshot.verifier, measure)
    missed = _missed(snapshot.verifier)
    if snapshot.verifier is None or doubts:
        reasons = [*doubts, *(line for line in missed if line not in doubts)]
        return Standing(word=UNSAID, headline="Cannot say yet", reasons=reasons)
    if missed:
        reasons = [*missed, *_assurance(snapshot.verifier)]
        return Standing(word=THRESHOLD, headline="Threshold missed so far, contract kept", reasons=reasons)
    return Standing(word=CLEAN, headline="Clean so far", reasons=_assurance(snapshot.verifier))


def conclude(last: SoakStatus, outcome: RunOutcome) -> Standing:
    """Say how a run stands that is over, with or without a verdict."""
    others = further_reasons(outcome)
    if not outcome.finished:
        others.insert(0, "the run was interrupted: what was not read back until then was never verified")
    if outcome.verdict == VIOLATION:
        return _violated(last.totals.violations, last.verifier, others)
    word = INTERRUPTED if not outcome.finished else UNSAID
    assured = _assurance(last.verifier) if last.verifier is not None else []
    if outcome.finished and outcome.verdict == Verdict.PASS.value:
        word, others = CLEAN, assured + others
    elif outcome.finished and outcome.verdict == Verdict.THRESHOLD.value:
        word, others = THRESHOLD, others + assured
    return Standing(word=word, headline=headline_of_run(outcome), reasons=others)


def _violated(violations: int, status: VerifierStatus | None, others: list[str]) -> Standing:
    # The findings stand right below, each with its own headline.
    findings = status.findings if status is not None else []
    reasons = others if findings or status is None else [*_kinds(status), *others]
    return Standing(word=VIOLATION, headline=headline_of(findings, violations), reasons=reasons)


def _silence(snapshot: SoakStatus) -> list[str]:
    if snapshot.verifier is None:
        why = {"starting": "the soak is starting", "draining": "waiting for the verdict"}
        return [why.get(snapshot.phase, "the verifier does not answer")]
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
        thresholds_missed=_lines(status, ThresholdState.MISSED),
        thresholds_without_samples=_lines(status, ThresholdState.NO_SAMPLES),
    )
    verdict, doubts = reach_verdict(facts)
    doubts = [] if verdict is Verdict.THRESHOLD else doubts
    untested = [one.store for one in canaries if not (one.detected or one.missed or one.early)]
    return doubts + [f"self-check: no planted error detected on {store} yet" for store in untested]


def _missed(status: VerifierStatus | None) -> list[str]:
    return [] if status is None else [f"threshold missed: {line}" for line in _lines(status, ThresholdState.MISSED)]


def _lines(status: VerifierStatus, state: ThresholdState) -> list[str]:
    return [one.line for one in status.thresholds if one.state is state]


def _kinds(status: VerifierStatus) -> list[str]:
    found = sorted(status.violations_by, key=lambda one: -one.count)
    lines = [f"{one.count:,} {one.kind} on {one.store}: {_sentence(one.kind)}" for one in found]
    return lines[:KINDS_SHOWN_MAX] + [f"and {len(lines) - KINDS_SHOWN_MAX} more kinds"] * (len(lines) > KINDS_SHOWN_MAX)


def _sentence(kind: str) -> str:
    return Kind(kind).sentence if kind in {known.value for known in Kind} else "unknown to this page"


def _assurance(status: VerifierStatus) -> list[str]:
    """Return the same lines from the beginning to the end, so that nothing below them moves."""
    totals = status.totals
    detected = sum(one.detected for one in status.canaries)
    lines = [
        f"{totals.verified:,} of {totals.acknowledged:,} acknowledged messages were read back as they were written",
        status.tried.text,
        f"self-check: {detected} of {detected} planted errors detected" if detected else "",
    ]
    return [line for line in lines if line]
