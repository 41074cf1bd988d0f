"""All pods of the server's workload are replaced, as by `kubectl rollout restart`."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import KubernetesFault
from soak.servers.servers import Servers


class RolloutRestart(KubernetesFault):
    """What every deployment does, at a time that suits nobody."""

    name = "rollout_restart"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    description = (
        "All pods are replaced, one after the other; each is stopped cleanly, "
        "so only a server without persistence loses anything."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].end_by(self.workload(servers, target).restart_rollout)
