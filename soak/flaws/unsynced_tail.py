"""Acknowledged, and still on its way to the disk."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.redis_memory import EverySecondMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup

_POWER_CUT = ScenarioFault(fault="power_cut", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="unsynced_tail",
    incident="acknowledged, not fsynced, power fails",
    code="appendfsync no: 'the kernel flushes anyway'. It does, when it likes.",
    mocks="Even a real server, killed with -9, loses nothing: the kernel still has the pages. Only a power cut tells.",
    user="The data centre blinked, and the last half minute of every conversation was gone.",
    kinds=GONE,
    causes=frozenset({Cause.UNSYNCED_TAIL}),
    setups=(
        FlawSetup(
            store=store_of(EverySecondMemory),
            servers=ServerSetup(redis_options={"appendfsync": "no"}),
            fault=_POWER_CUT,
        ),
        FlawSetup(store=store_of(EverySecondMemory), fault=_POWER_CUT),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
