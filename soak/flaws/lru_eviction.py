"""A cache by configuration."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, Load, store_of
from soak.flaws.redis_memory import EverySecondMemory
from soak.scenarios.scenario import ServerSetup

MEMORY = "4mb"

FLAW = Flaw(
    name="lru_eviction",
    incident="maxmemory with allkeys-lru drops sessions quietly",
    code="maxmemory-policy allkeys-lru, copied from the cache next door.",
    mocks="Tests never fill the memory; and no command fails when it is full, which is the point of the policy.",
    user="Whoever had not been there for a while was met as a stranger; those who talked all day noticed nothing.",
    kinds=GONE,
    causes=frozenset({Cause.EVICTION}),
    setups=(
        FlawSetup(
            store=store_of(EverySecondMemory),
            servers=ServerSetup(redis_options={"maxmemory": MEMORY, "maxmemory-policy": "allkeys-lru"}),
        ),
        # A full server refuses the write, so the caller knows.
        FlawSetup(
            store=store_of(EverySecondMemory),
            servers=ServerSetup(redis_options={"maxmemory": MEMORY, "maxmemory-policy": "noeviction"}),
        ),
    ),
    load=Load(mix="long", session_messages=30, users=12, think_seconds=0.02),
)
