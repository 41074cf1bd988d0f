"""A primary in the minority."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, after_a_while, store_of
from soak.flaws.shared_cluster_client import NothingTwice
from soak.scenarios.scenario import ServerSetup
from soak.servers.kinds import RedisTopology
from soak.stores import Contract


class PromisesPartitions(NothingTwice):
    """Promises that a failover loses nothing; a primary that is cut off acknowledges for the node timeout."""

    contract: ClassVar[Contract] = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=0.0)


_CLUSTER = ServerSetup(redis_topology=RedisTopology.CLUSTER)
_STORE = store_of(PromisesPartitions)


FLAW = Flaw(
    name="cluster_partition",
    incident="a rack of a Redis Cluster is cut off; its primary acknowledges for seconds, and all that is lost",
    code="cluster-node-timeout 15000, the default, and no WAIT. 'Cluster fails over by itself.'",
    mocks="A mock of a cluster agrees with itself.",
    user="A third of all users lost the same seconds, and the others nothing.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(store=_STORE, servers=_CLUSTER, fault=after_a_while("partial_partition")),
        # A primary that hands over waits until its replica has everything.
        FlawSetup(store=_STORE, servers=_CLUSTER, fault=after_a_while("cluster_failover")),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
    patience_seconds=30.0,
)
