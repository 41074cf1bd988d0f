"""A replica of a Redis Cluster takes over without asking anybody."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.cluster_failover import ClusterFailover


class ClusterTakeover(ClusterFailover):
    """CLUSTER FAILOVER TAKEOVER: the replica asks nobody, neither its primary nor the majority."""

    name = "cluster_takeover"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "CLUSTER FAILOVER TAKEOVER: a replica takes over without asking anybody; what it had not received is lost."
    )
    how = ("TAKEOVER",)
