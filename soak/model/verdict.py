"""The run's verdict: pass, violation or inconclusive, and never a pass by doing nothing."""

from __future__ import annotations

import enum

import msgspec

from soak.errors import ExitCode


class Verdict(enum.Enum):
    """What a run has shown."""

    PASS = "pass"  # noqa: S105  a verdict
    VIOLATION = "violation"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> ExitCode:
        return {
            Verdict.PASS: ExitCode.PASS,
            Verdict.VIOLATION: ExitCode.VIOLATION,
            Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
        }[self]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict rests on."""

    violations: int
    verified: int
    minimum_verified: int
    unverifiable: int
    unverified: int
    """Acknowledged messages nobody has seen or explained by the end."""
    oldest_unverified_seconds: float
    oldest_unverified_seconds_max: float
    suspicions_open: int
    stores_without_verified: list[str]
    stores_without_search: list[str] = []
    """Stores that can search, and have found less than a search worth the name does (`soak.model.search.is_blind`)."""
    browsers_silent: bool = False
    """There were to be participants with a browser, and nothing that they said was acknowledged."""
    reads_failed_at_end: int = 0
    faults_not_injected: int = 0
    canaries_missed: dict[str, int] = {}
    """By store: sessions spoiled on purpose that nobody reported."""
    canaries_early: dict[str, int] = {}
    """By store: canaries that were reported before anybody had spoiled them."""
    stores_without_canary: list[str] = []
    """Stores on which no canary was ever reported, although the alarm was to be tested."""


def reach_verdict(facts: Facts) -> tuple[Verdict, list[str]]:
    """Return the verdict and, in words, why it is not a pass."""
    if facts.violations:
        return Verdict.VIOLATION, [f"{facts.violations} violations of the contract"]
    doubts = []
    if facts.verified < max(1, facts.minimum_verified):
        doubts.append(
            f"only {facts.verified} messages were verified, at least {max(1, facts.minimum_verified)} are needed"
        )
    doubts.extend(f"nothing was verified on {store}" for store in facts.stores_without_verified)
    doubts.extend(
        f"searches on {store} found less than half of what is stored there, or nothing was searched for"
        for store in facts.stores_without_search
    )
    if facts.browsers_silent:
        doubts.append("nothing was acknowledged that a browser user said; the log of the load tells why")
    if facts.oldest_unverified_seconds > facts.oldest_unverified_seconds_max:
        doubts.append(
            f"an acknowledged message has been waiting for {facts.oldest_unverified_seconds:.1f} s to be verified, "
            f"allowed are {facts.oldest_unverified_seconds_max:g} s"
        )
    elif facts.unverified:
        doubts.append(f"{facts.unverified} acknowledged messages were not verified by the end")
    if facts.unverifiable:
        doubts.append(f"the ledger has gaps: {facts.unverifiable} records cannot be verified")
    if facts.suspicions_open:
        doubts.append(f"{facts.suspicions_open} suspicions could not be confirmed or dismissed")
    if facts.reads_failed_at_end:
        doubts.append(f"{facts.reads_failed_at_end} sessions could not be read in the last sweep")
    if facts.faults_not_injected:
        doubts.append(f"{facts.faults_not_injected} scheduled faults could not be injected, or not be healed")
    doubts += _doubts_of_alarm(facts)
    return (Verdict.INCONCLUSIVE, doubts) if doubts else (Verdict.PASS, [])


def _doubts_of_alarm(facts: Facts) -> list[str]:
    """Say why the alarm itself cannot be trusted: a silence proves nothing if it would not have rung."""
    doubts = [
        f"the alarm failed its test on {store}: {count} canaries were spoiled and not reported"
        for store, count in facts.canaries_missed.items()
        if count
    ]
    doubts += [
        f"{count} canaries on {store} were reported before they were spoiled: "
        "the store is wrong where the load did not see it, or the alarm is"
        for store, count in facts.canaries_early.items()
        if count
    ]
    doubts += [
        f"the alarm could not be tested on {store}: no canary came to its end"
        for store in facts.stores_without_canary
        if not facts.canaries_missed.get(store) and not facts.canaries_early.get(store)
    ]
    return doubts
