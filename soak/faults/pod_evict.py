"""The pod of the server is evicted, and its controller makes another."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import KubernetesFault
from soak.servers.servers import Servers


class PodEvict(KubernetesFault):
    """A node that is drained: disruption budgets are kept, and the server has the grace period of its pod to end."""

    name = "pod_evict"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    description = (
        "The pod is evicted as from a drained node and made again by its controller; "
        "it is stopped cleanly, so only a server without persistence loses anything."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].end_by(self.workload(servers, target).evict_pod)
