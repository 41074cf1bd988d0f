"""The server is killed, with the durability it is shipped with."""

from __future__ import annotations

from soak.analysis.result import Tried, seen_in
from soak.analysis.rig import Rig
from soak.analysis.stage import Stage
from soak.analysis.trial import Trial, without_server
from soak.analysis.trials.breaking import ACKNOWLEDGED_MIN, server_broken
from soak.checker.faults import Excuse


async def run(rig: Rig) -> Tried:
    talks, notes = await server_broken(rig, "crash", Excuse.CRASH, rig.server.kill)
    durability = rig.contract.clauses()["durability"]
    return seen_in(talks, notes=[f"the server as shipped promises: {durability}", *notes])


TRIAL = Trial(
    name="server-crash",
    question="Is more gone after kill -9 of a server with its default settings than these allow?",
    run=run,
    stage=Stage.SHIPPED,
    acknowledged_min=ACKNOWLEDGED_MIN,
    unfit=without_server,
)
