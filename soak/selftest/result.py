"""What came of one trial, as one value."""

from __future__ import annotations

import msgspec

from soak.flaws.flaw import Flaw


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one trial."""

    flaw: str
    expected_kinds: list[str]
    expected_causes: list[str]
    found_kinds: dict[str, int] = {}
    """How many violations of each kind were found, the most frequent first."""
    cause: str = ""
    """The probable cause named most often."""
    seconds_to_detect: float | None = None
    affected: int = 0
    """Violations of an expected kind."""
    twin_verdict: str = ""
    twin_verified: int = 0
    twin_shadowed_reads: int = 0
    """Messages that a replica of the twin showed late because of the fault: tolerated, and counted."""
    twin_shadowed_lag_seconds_max: float = 0.0
    example: str = ""
    """The first message that was reported as an expected kind."""
    failures: list[str] = []
    """Why the trial is lost; empty: the flaw was found and its twin was left alone."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def outcome(self) -> str:
        found = f"found as {next(iter(self.found_kinds), '-')}" if self.passed else "; ".join(self.failures)
        return f"{found} ({self.seconds:.0f} s)"


def not_made(flaw: Flaw, reason: str) -> Trial:
    """Return the result of a trial that did not take place: it proves nothing, and so it is lost."""
    return Trial(
        flaw=flaw.name,
        expected_kinds=sorted(kind.value for kind in flaw.kinds),
        expected_causes=sorted(cause.value for cause in flaw.causes),
        failures=[f"the trial could not be made: {reason}"],
    )
