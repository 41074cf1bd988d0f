"""The server's workload has no pods for a while."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import KubernetesFault
from soak.faults.healing import Notes
from soak.servers.servers import Servers

_REPLICAS = "replicas"


class ScaleToZero(KubernetesFault):
    """An autoscaler, or somebody who saves money over the weekend."""

    name = "scale_to_zero"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "The workload is scaled to no pods and back; each is stopped cleanly, "
        "so only a server without persistence loses anything."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        server, workload = servers.nodes[target], self.workload(servers, target)
        replicas = await workload.replicas()
        if replicas:
            Notes(server).begin(self.name, {_REPLICAS: str(replicas)})
        await server.end_by(lambda: workload.scale(0))

    async def heal(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        if before := Notes(server).before(self.name):
            await self.workload(servers, target).scale(int(before[_REPLICAS]))
        await server.start_again()
