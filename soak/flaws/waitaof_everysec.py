"""A command that is documented to wait for the disk, and does not."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.durable_memory import WaitsForTheDisk
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.scenarios.scenario import ScenarioFault, ServerSetup

_POWER_CUT = ScenarioFault(fault="power_cut", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="waitaof_everysec",
    incident="WAITAOF confirms each write under appendfsync everysec; power fails, and confirmed writes are gone",
    code="RPUSH and WAITAOF 1 0 in one pipeline. Valkey 9.1 answers before the file is synced.",
    mocks="A mock returns [1, 0]. So does the server.",
    user="The one message that had to survive, and was confirmed by the disk, was gone.",
    kinds=GONE,
    causes=frozenset({Cause.UNSYNCED_TAIL}),
    setups=(
        FlawSetup(store=store_of(WaitsForTheDisk), fault=_POWER_CUT),
        FlawSetup(
            store=store_of(WaitsForTheDisk),
            servers=ServerSetup(redis_options={"appendfsync": "always"}),
            fault=_POWER_CUT,
        ),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
