"""One replica is enough, and which one it is nobody asks."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.unconfirmed_failover import PromisesFailovers
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import RedisTopology

_STORE = store_of(PromisesFailovers)
_ONE_REPLICA = ServerSetup(
    redis_topology=RedisTopology.SENTINEL,
    redis_options={"min-replicas-to-write": "1", "min-replicas-max-lag": "1"},
)

FLAW = Flaw(
    name="min_replicas_one",
    incident="min-replicas-to-write 1, as documented; a primary that is cut off acknowledges for seconds all the same",
    code="min-replicas-to-write 1 and min-replicas-max-lag 10 in redis.conf, and 'no data loss' in the document.",
    mocks="A mock has no replicas. A test that resets connections shows no loss: packets that vanish do.",
    user="Two seconds of every conversation were gone, and nobody had seen an error.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(
            store=_STORE,
            servers=_ONE_REPLICA,
            fault=ScenarioFault(
                fault="partial_partition", parameters={"cut": "silent"}, after_seconds=2.0, hold_seconds=0.2
            ),
        ),
        # The primary stops first, and hands over to a replica that has everything.
        FlawSetup(
            store=_STORE,
            servers=_ONE_REPLICA,
            fault=ScenarioFault(fault="coordinated_failover", after_seconds=2.0, hold_seconds=0.2),
        ),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
    patience_seconds=30.0,
)
