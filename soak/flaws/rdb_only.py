"""Saved every fifteen minutes, if it comes to that."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.redis_memory import EverySecondMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup

_CRASH = ScenarioFault(fault="crash", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="rdb_only",
    incident="default `save 900 1`, killed inside the window",
    code="No configuration at all: the image's default, which is a snapshot every 15 minutes.",
    mocks="A mock is never killed. And a container that is stopped politely saves first.",
    user="After the node was replaced the assistant had last heard of everybody a quarter of an hour ago.",
    kinds=GONE,
    causes=frozenset({Cause.RESTART_WITHOUT_PERSISTENCE}),
    setups=(
        FlawSetup(
            store=store_of(EverySecondMemory),
            servers=ServerSetup(redis_options={"appendonly": "no", "save": "900 1"}),
            fault=_CRASH,
        ),
        FlawSetup(store=store_of(EverySecondMemory), fault=_CRASH),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
