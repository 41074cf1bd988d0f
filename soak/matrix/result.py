"""What came of one cell, as one value, and the worst of several."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from soak.errors import ExitCode
from soak.matrix.measured import Measured
from soak.matrix.plan import CellPlan


class Verdict(enum.Enum):
    """Whether a server kept what its configuration promises."""

    INSIDE = "inside"
    NOT_MADE = "not made"
    BEYOND = "BEYOND"


_BADNESS = {Verdict.INSIDE: 0, Verdict.NOT_MADE: 1, Verdict.BEYOND: 2}


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cell."""

    configuration: str
    fault: str
    server: str = ""
    """Name and version, as the server tells them."""
    origin: str = ""
    """What the contract was derived from, in words."""
    measured: Measured | None = None
    """None: the cell could not be made."""
    recovery_seconds: float = 0.0
    """From the fault to the first write and read that succeeded."""
    repairs: list[str] = []
    """What had to be done about its data by hand before it started again, if anything."""
    not_made: str = ""
    """Why the cell could not be made."""
    is_unreachable: bool = False
    """It could not be made because a server cannot be started or does not answer."""
    repeats: int = 1
    """This is the worst of so many."""
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if self.measured is None:
            return Verdict.NOT_MADE
        return Verdict.INSIDE if self.measured.is_inside else Verdict.BEYOND

    @property
    def outcome(self) -> str:
        if self.measured is None:
            return f"not made: {self.not_made}"
        lost = f"{self.measured.lost:,} of {self.measured.acknowledged:,} lost"
        return f"{lost}, {self.verdict.value} ({self.seconds:.0f} s)"

    @property
    def reasons(self) -> list[str]:
        """Why it is not inside."""
        return [self.not_made] if self.measured is None else self.measured.complaints


def not_made(plan: CellPlan, reason: str, *, is_unreachable: bool = False) -> CellResult:
    """Return the result of a cell that could not be made: it proves nothing."""
    return CellResult(
        configuration=plan.configuration, fault=plan.fault, not_made=reason, is_unreachable=is_unreachable
    )


def worst_of(results: Sequence[CellResult]) -> CellResult:
    """Return the worst of several tries at one cell, with the longest recovery of them all."""
    worst = max(results, key=_badness)
    return msgspec.structs.replace(
        worst,
        recovery_seconds=max(result.recovery_seconds for result in results),
        repairs=[repair for result in results for repair in result.repairs],
        repeats=len(results),
        seconds=sum(result.seconds for result in results),
    )


def _badness(result: CellResult) -> tuple[int, int, float, int]:
    measured = result.measured
    if measured is None:
        return _BADNESS[result.verdict], 0, 0.0, 0
    return _BADNESS[result.verdict], measured.beyond, measured.recovery_point_seconds, measured.lost


def exit_code_of(results: Sequence[CellResult]) -> ExitCode:
    """Return what the command answers with: a loss beyond a promise outweighs what could not be tried."""
    verdicts = {result.verdict for result in results}
    if Verdict.BEYOND in verdicts:
        return ExitCode.VIOLATION
    if results and all(result.is_unreachable for result in results):
        return ExitCode.UNREACHABLE
    return ExitCode.INCONCLUSIVE if Verdict.NOT_MADE in verdicts or not results else ExitCode.PASS
