"""The file that is never written."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.redis_memory import RedisMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup

_RESTART = ScenarioFault(fault="restart", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="persistence_off",
    incident="someone tweaks the policy or bumps the image; the file is never written",
    code='appendonly no, save "": one line of a chart, changed to quieten a warning about disk space.',
    mocks="The configuration of the real server is in no test.",
    user="A planned, clean restart at four in the morning, and everybody was new here.",
    kinds=GONE,
    causes=frozenset({Cause.RESTART_WITHOUT_PERSISTENCE}),
    # Nobody declared a contract. A server that keeps nothing is held to the floor, not to nothing.
    setups=(
        FlawSetup(
            store=store_of(RedisMemory),
            derives_contract=True,
            servers=ServerSetup(redis_options={"appendonly": "no", "save": ""}),
            fault=_RESTART,
        ),
        FlawSetup(store=store_of(RedisMemory), derives_contract=True, fault=_RESTART),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
