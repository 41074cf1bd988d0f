"""What a trial has seen of a library, and the verdict on it. Pure: no clock, no socket."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from soak.checker.outcome import Outcome
from soak.contract_suite.workloads import Held
from soak.errors import ExitCode
from soak.subjects.description import ByDesign, Subject


class TrialVerdict(enum.Enum):
    """What a trial has shown. None of them is reached by doing nothing."""

    PASS = "pass"  # noqa: S105  a verdict
    FINDING = "finding"
    BY_DESIGN = "by design"
    NOT_APPLICABLE = "not applicable"
    INCONCLUSIVE = "inconclusive"


class _Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial has seen, in numbers."""

    found: dict[str, int] = {}
    """Messages by kind of what is wrong with them."""
    tolerated: int = 0
    """Lost, as the server under it says that it may."""
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    verified: int = 0
    reads: int = 0
    reads_without_answer: int = 0
    notes: list[str] = []
    """What else was seen: how often the fault struck, what the library raised."""
    example: str = ""
    """One of the messages concerned, and what is wrong with it."""


class TrialResult(_Counted, frozen=True, kw_only=True):
    """One trial on one library."""

    subject: str
    called: str
    """As it was called on the command line: its name, or the path of its script."""
    library: str
    version: str
    trial: str
    seed: int
    verdict: TrialVerdict
    reason: str = ""
    """Why it is by design, not applicable or inconclusive."""
    seconds: float = 0.0

    @property
    def command(self) -> str:
        """What makes this cell again."""
        return f"soak analyse {self.called} --trial {self.trial} --seed {self.seed}"

    @property
    def words(self) -> str:
        """What was found, in a few words."""
        if self.verdict is TrialVerdict.NOT_APPLICABLE:
            return "-"
        if self.verdict is TrialVerdict.INCONCLUSIVE:
            return "inconclusive"
        parts = [f"{count:,} {kind}" for kind, count in sorted(self.found.items(), key=lambda one: -one[1])]
        if self.verdict is TrialVerdict.PASS:
            return "pass"
        if self.tolerated:
            # Separate: these are the server's, not the library's.
            more = "more " if parts else ""
            parts.append(f"{self.tolerated:,} {more}lost as the server is set")
        return ", ".join(parts) + (" (by design)" if self.verdict is TrialVerdict.BY_DESIGN else "")


class AnalysisResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the trials of one library on one stage."""

    cells: list[TrialResult]
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        return "; ".join(f"{cell.trial} {cell.words}" for cell in self.cells)


class TrialTally(_Counted, frozen=True, kw_only=True):
    """What a trial has seen, before anything is made of it."""

    unsettled: int = 0
    """Sessions that could not be read to the end."""
    doubts: list[str] = []
    """Why it proves nothing that nothing was found."""

    def counts(self) -> dict[str, Any]:
        """Return what a result keeps of it."""
        return {name: getattr(self, name) for name in _Counted.__struct_fields__}


def sum_up(held: Held) -> TrialTally:
    """Add up what was seen in the sessions of a trial."""
    talks = held.conversations
    kinds: Counter[str] = Counter(kind.value for talk in talks for kind, _ in talk.found)
    first = next(iter((key, detail) for talk in talks for key, detail in talk.found.items()), None)
    outcomes: Counter[Outcome] = Counter()
    errors: Counter[str] = Counter()
    for talk in talks:
        outcomes += talk.outcomes
        errors += Counter(talk.errors)
    common = [f"{count} x {error}" for error, count in errors.most_common(3)]
    return TrialTally(
        found=dict(kinds.most_common()),
        example=f"{first[0][0].value} {first[0][1]}: {first[1]}" if first is not None else "",
        tolerated=sum(talk.tolerated for talk in talks),
        acknowledged=outcomes[Outcome.OK],
        failed=outcomes[Outcome.FAILED],
        unknown=outcomes[Outcome.UNKNOWN],
        verified=sum(talk.verified for talk in talks),
        reads=sum(talk.reads for talk in talks),
        reads_without_answer=sum(talk.reads_without_answer for talk in talks),
        unsettled=sum(1 for talk in talks if not talk.is_settled),
        notes=[*held.notes, *common],
        doubts=list(held.doubts),
    )


def judged(
    tried: TrialTally, design: ByDesign | None, acknowledged_min: int, known: Collection[str] = ()
) -> tuple[TrialVerdict, str]:
    """Return the verdict, and why it is neither a pass nor a finding. Pure.

    What is known of a release and was not found again is no pass: then the trial is what has failed.
    """
    if tried.found:
        if design is not None and set(tried.found) <= set(design.kinds):
            return TrialVerdict.BY_DESIGN, design.reason
        return TrialVerdict.FINDING, ""
    doubts = list(tried.doubts)
    if known:
        doubts.append(f"{', '.join(sorted(known))}: so much is known of this release, and was not found this time")
    if tried.acknowledged < acknowledged_min:
        doubts.append(f"only {tried.acknowledged} messages were acknowledged, at least {acknowledged_min} are needed")
    if tried.unsettled:
        doubts.append(f"{tried.unsettled} sessions could not be read to the end")
    if doubts:
        return TrialVerdict.INCONCLUSIVE, "; ".join([*doubts, *tried.notes])
    if tried.tolerated:
        return TrialVerdict.BY_DESIGN, "no more was lost than the server as configured may lose"
    if not tried.verified:
        return TrialVerdict.INCONCLUSIVE, "; ".join(["nothing was verified", *tried.notes])
    return TrialVerdict.PASS, ""


def exit_code_of(cells: Sequence[TrialResult]) -> ExitCode:
    """Return what the command answers with: findings are what it is for, and cells that were not made are not."""
    is_made = all(cell.verdict is not TrialVerdict.INCONCLUSIVE for cell in cells)
    return ExitCode.PASS if cells and is_made else ExitCode.INCONCLUSIVE


def empty_cell(subject: Subject, trial: str, seed: int, verdict: TrialVerdict, reason: str) -> TrialResult:
    """Return a cell of which nothing is known but why."""
    return TrialResult(
        subject=subject.name,
        called=subject.called or subject.name,
        library=subject.library,
        version=subject.version,
        trial=trial,
        seed=seed,
        verdict=verdict,
        reason=reason,
    )
