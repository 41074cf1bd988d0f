"""What is made together: the trials of one library on one stage."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from soak.analysis import trials
from soak.analysis.result import Cell, Verdict
from soak.analysis.stage import Stage
from soak.analysis.trials import Trial
from soak.subjects.description import Subject

STAGE_SECONDS_MAX = 400.0
"""To set a stage and to clear it, besides its trials."""


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One library on one stage."""

    subject: Subject
    stage: Stage
    trials: list[str]
    seed: int
    interpreter: str = ""

    @property
    def name(self) -> str:
        what = self.trials[0] if len(self.trials) == 1 else f"{len(self.trials)} trials"
        return f"{self.subject.name}, {self.stage.value} ({what})"

    @property
    def seconds_max(self) -> float:
        return STAGE_SECONDS_MAX + sum(trials.ALL[trial].seconds_max for trial in self.trials)

    def inconclusive(self, trial: str, reason: str) -> Cell:
        """Return the cell of a trial that could not be made."""
        return empty_cell(self.subject, trial, self.seed, Verdict.INCONCLUSIVE, reason)


def trials_for(subject: Subject, trials: Sequence[Trial], *, known_only: bool) -> list[Trial]:
    """Return what a library is put through: of an earlier release, if wanted, only what something is known of."""
    if not known_only or subject.is_newest:
        return list(trials)
    return [trial for trial in trials if trial.name in subject.known]


def plan_stages(subject: Subject, trials: Sequence[Trial], seed: int) -> tuple[list[StagePlan], list[Cell]]:
    """Return the stages of a library, and the cells that it does not have, each with the reason."""
    cells: list[Cell] = []
    by_stage: dict[Stage, list[str]] = {}
    for trial in trials:
        reason = subject.not_applicable.get(trial.name) or trial.unfit(subject)
        if reason is not None:
            cells.append(empty_cell(subject, trial.name, seed, Verdict.NOT_APPLICABLE, reason))
        else:
            by_stage.setdefault(trial.stage, []).append(trial.name)
    plans = [StagePlan(subject=subject, stage=stage, trials=names, seed=seed) for stage, names in by_stage.items()]
    return plans, cells


def empty_cell(subject: Subject, trial: str, seed: int, verdict: Verdict, reason: str) -> Cell:
    """Return a cell of which nothing is known but why."""
    return Cell(
        subject=subject.name,
        called=subject.called or subject.name,
        library=subject.library,
        version=subject.version,
        trial=trial,
        seed=seed,
        verdict=verdict,
        reason=reason,
    )
