"""A trial of the selftest in this process: its scenarios one after the other."""

from __future__ import annotations

from pathlib import Path

from soak.flaws.flaw import Flaw
from soak.scenarios.selftest.trial import FlawTrial, scenarios_of, trial_of


async def make_trial(flaw: Flaw, folder: Path) -> FlawTrial:
    scenarios = enumerate(scenarios_of(flaw))
    return trial_of(flaw, [await one.run(folder / str(number)) for number, one in scenarios])
