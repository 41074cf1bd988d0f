"""Once a second is not always."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.durable_memory import PromisesEverything
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.scenarios.scenario import ScenarioFault, ServerSetup

_POWER_CUT = ScenarioFault(fault="power_cut", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="everysec_as_always",
    incident="appendonly yes is taken for durable; it syncs once a second, and power fails in between",
    code="appendonly yes, and a design document that says 'Redis is persistent'. appendfsync is everysec by default.",
    mocks="Neither a mock nor kill -9 tells the two apart: the kernel has the pages. Only a power cut does.",
    user="The order was confirmed on the screen, and after the power failure nobody had ever placed it.",
    kinds=GONE,
    causes=frozenset({Cause.UNSYNCED_TAIL}),
    setups=(
        FlawSetup(store=store_of(PromisesEverything), fault=_POWER_CUT),
        FlawSetup(
            store=store_of(PromisesEverything),
            servers=ServerSetup(redis_options={"appendfsync": "always"}),
            fault=_POWER_CUT,
        ),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
