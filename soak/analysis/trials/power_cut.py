"""The machine under the server loses its power; the server is set to be durable."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import CannotBeTriedError, Rig
from soak.analysis.stage import Stage
from soak.analysis.trial import Trial, without_server
from soak.analysis.trials.breaking import ACKNOWLEDGED_MIN, server_broken
from soak.checker.faults import Excuse


async def run(rig: Rig) -> Tried:
    if rig.no_power_cuts is not None:
        raise CannotBeTriedError(rig.no_power_cuts)
    talks, notes = await server_broken(rig, "power", Excuse.POWER, rig.server.cut_power)
    durability = rig.contract.clauses()["durability"]
    return seen_in(talks, notes=[f"the server as set promises: {durability}", *notes])


TRIAL = Trial(
    name="power-cut",
    question="Is more gone after a power cut than the server allows (AOF everysec, synchronous_commit on)?",
    run=run,
    stage=Stage.POWER,
    acknowledged_min=ACKNOWLEDGED_MIN,
    unfit=without_server,
)
