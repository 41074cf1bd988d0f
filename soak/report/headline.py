"""The one sentence about a run that stands first everywhere: on the page, in the terminal and in every report."""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.kinds import Kind
from soak.errors import ExitCode
from soak.report.outcome import RunOutcome
from soak.verifier.findings import FindingResult, sentence_of

VIOLATION = "violation"
_LEADS = {
    Kind.LOST: "Memory forgets",
    Kind.ROLLED_BACK: "Memory forgets",
    Kind.STALE: "Memory lags behind",
    Kind.NON_MONOTONIC: "Memory takes back what it showed",
    Kind.REORDERED: "Memory mixes up the order",
    Kind.DUPLICATED: "Memory repeats itself",
    Kind.CORRUPTED: "Memory changes what was said",
    Kind.UNDECODABLE: "Memory returns what is no message",
    Kind.PHANTOM: "Memory shows messages it never accepted",
    Kind.LEAKED: "Memory leaks",
    Kind.RESURRECTED: "Memory brings back forgotten messages",
    Kind.WINDOW: "Memory returns the wrong last messages",
    Kind.UNFINDABLE: "Memory does not find what it holds",
}
"""What each kind says about the memory, in the fewest words."""
_ENDS = {
    "pass": "Pass: no violation found",
    "threshold": "Threshold missed, contract kept",
    "inconclusive": "Inconclusive: too little was shown for a pass",
}


def headline_of_run(
    outcome: RunOutcome, findings: Sequence[FindingResult] | None = None, *, is_running: bool = False
) -> str:
    """Say how a run ended, or how it stands; the findings are the result's unless others are given."""
    result = outcome.result
    if outcome.verdict == VIOLATION and result is not None:
        return headline_of(result.findings if findings is None else findings, result.totals.violations)
    if outcome.verdict == VIOLATION:
        return outcome.reasons[0] if outcome.reasons else headline_of([], 0)
    if is_running:
        return "Clean so far"
    if not outcome.finished:
        return "Interrupted: no verdict"
    return _ENDS.get(outcome.verdict, _ENDS["inconclusive"])


def headline_of(findings: Sequence[FindingResult], violations: int) -> str:
    """Name the largest finding that is open in one sentence, and how many there are besides."""
    if not findings:
        return f"{violations:,} violation{'' if violations == 1 else 's'} of the contract"
    # What healed is the lesser evil, however often it happened.
    first, others = next((one for one in findings if one.open), findings[0]), len(findings) - 1
    lead = _LEADS[Kind(first.kind)]
    sentence = sentence_of(first.kind, first.count, first.acknowledged, short_name(first.store), first.cause)
    healed = " (healed)" if first.healed and not first.open else ""
    more = f"; {others} more finding{'' if others == 1 else 's'}" if others else ""
    return f"{lead}: {sentence}{healed}{more}"


def further_reasons(outcome: RunOutcome) -> list[str]:
    """Return the reasons that the headline leaves open; the number of violations is not one of them.

    Where a class cannot work at all, that is the one reason: that nothing was verified only follows from it.
    """
    raised = {error.line for error in outcome.result.store_errors} if outcome.result is not None else set()
    if outcome.exit_code == ExitCode.USAGE and (broken := [reason for reason in outcome.reasons if reason in raised]):
        return broken
    counted = outcome.result.reasons[:1] if outcome.result is not None and outcome.verdict == VIOLATION else []
    return [reason for reason in outcome.reasons if reason not in counted]


def short_name(store: str) -> str:
    """Name a class of the user's without its module; reports and page show the whole name elsewhere."""
    return store.rpartition(":")[2]


def short_names(stores: Sequence[str]) -> dict[str, str]:
    """Return the short name of each store, for a narrow table; whole names where two would be the same."""
    short = {store: short_name(store) for store in stores}
    return short if len(set(short.values())) == len(short) else {store: store for store in short}
