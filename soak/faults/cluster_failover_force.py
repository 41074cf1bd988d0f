"""A replica of a Redis Cluster takes over without asking its primary."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.cluster_failover import ClusterFailover


class ClusterFailoverForce(ClusterFailover):
    """CLUSTER FAILOVER FORCE: the replica asks the majority, and not its primary."""

    name = "cluster_failover_force"
    excuses = Excuse.FAILOVER
    promotes = Promotion.BESIDE_THE_OLD
    description = (
        "CLUSTER FAILOVER FORCE: the majority lets a replica take over, and its primary is not asked; what the replica "
        "had not received is lost."
    )
    how = ("FORCE",)
