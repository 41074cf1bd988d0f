"""A result about a memory library, shown again by one of the trials of `soak analyse`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from soak.scenarios.analyses import trials
from soak.scenarios.analyses.judgement import TrialVerdict
from soak.scenarios.analyses.scenario import AnalysisScenario, plan_stages
from soak.scenarios.reproductions.scenario import Reproduced, ReproductionScenario
from soak.subjects import catalogue, environment


class LibraryReproduction(ReproductionScenario, frozen=True, kw_only=True):
    """One trial of one library. Its only store is the library, and its load the name of the trial."""

    interpreter: str = ""

    @property
    def command(self) -> str:
        return f"soak analyse {self.stores[0]} --trial {self.load[0]} --seed {self.seed}"

    def prepare(self, say: Callable[[str], None]) -> LibraryReproduction:
        """Install the library."""
        return msgspec.structs.replace(self, interpreter=self._plan().prepare(say).interpreter)

    async def run(self, folder: Path) -> Reproduced:
        plan = msgspec.structs.replace(self._plan(), interpreter=self.interpreter)
        (cell,) = (await plan.run(folder)).cells
        if cell.verdict is TrialVerdict.INCONCLUSIVE:
            return self.not_made(cell.reason)
        return Reproduced(
            name=self.name,
            verdict=cell.verdict.value,
            counts=self.expectation.counts,
            acknowledged=cell.acknowledged,
            lost=cell.found.get(self.expectation.counts, 0),
            seed=str(cell.seed),
        )

    def _plan(self) -> AnalysisScenario:
        (subject,) = catalogue.find([self.stores[0]])
        (plan,), _ = plan_stages(subject, trials.find([self.load[0]]), self.seed, str(environment.default_folder()))
        return plan
