"""200 OK, and then the writing."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, Load, WrongFrom
from soak.flaws.served import same_service
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import HTTP

FLAW = Flaw(
    name="ack_before_flush",
    incident="200 is returned, the write is flushed later, the process dies",
    code="A buffer and a background task: one round trip for a hundred messages, and a p99 to be proud of.",
    mocks="The test reads through the same process, and so through the same buffer.",
    user="The pod was rescheduled in the middle of a sentence. The sentence had been acknowledged.",
    kinds=GONE,
    causes=frozenset({Cause.UNSYNCED_TAIL}),
    setups=same_service("ack_before_flush", ScenarioFault(fault="crash", target=HTTP.name, after_seconds=2.5)),
    load=Load(users=12),
    wrong_from=WrongFrom.FAULT_ENDED,
)
