"""Back before anybody noticed, and empty."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.sentinel_memory import SentinelMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import RedisTopology

_RESTART = ScenarioFault(fault="primary_restart", after_seconds=3.5, hold_seconds=0.2)

FLAW = Flaw(
    name="empty_primary",
    incident="three replicas instead of persistence; the primary is restarted at once, comes back empty and wipes them",
    code='appendonly no, save "", and restart: always. The replicas are the backup, somebody wrote beside it.',
    mocks="A mock has no replicas. And a primary that is killed for good is replaced, which works.",
    user="Everything was gone on all three servers, and Sentinel had not seen a thing.",
    kinds=GONE,
    causes=frozenset({Cause.RESTART_WITHOUT_PERSISTENCE}),
    setups=(
        FlawSetup(
            store=store_of(SentinelMemory),
            servers=ServerSetup(redis_topology=RedisTopology.SENTINEL, redis_options={"appendonly": "no", "save": ""}),
            fault=_RESTART,
        ),
        FlawSetup(
            store=store_of(SentinelMemory),
            servers=ServerSetup(redis_topology=RedisTopology.SENTINEL),
            fault=_RESTART,
        ),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
