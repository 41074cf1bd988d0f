"""The pod of the server is deleted, and its controller makes another."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import KubernetesFault
from soak.faults.parameters import Time
from soak.servers.servers import Servers


class PodDelete(KubernetesFault):
    """A node that is lost, a hasty hand: the server is told to end, and killed soon after."""

    name = "pod_delete"
    excuses = Excuse.CRASH
    promotes = Promotion.NONE
    description = (
        "The pod is deleted with a short grace and made again by its controller; a server that does not end in time "
        "is killed, so what a crash may take may be gone."
    )

    # Never 0: the API would forget the pod at once, and a second one might write to the volume of the first.
    grace = Time(1.0, "until it is killed, in whole seconds", least=1.0, most=600.0)

    async def inject(self, servers: Servers, target: str) -> None:
        workload = self.workload(servers, target)
        await servers.nodes[target].end_by(lambda: workload.delete_pod(self.grace))
