"""A network policy lets nobody in to the server."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.errors import ServerUnreachableError
from soak.faults.fault import KubernetesFault
from soak.faults.healing import SERVING_SECONDS_MAX
from soak.servers.servers import Servers
from soak.tasks import until

EFFECT_SECONDS_MAX = 30.0
"""For the network of the cluster to follow the policy."""
_POLL_SECONDS = 0.2


class PolicyPartition(KubernetesFault):
    """A policy that was meant for others: new connections are not let in, from anywhere."""

    name = "policy_partition"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "A NetworkPolicy lets no new connection in to the pods; the server itself is well, and nothing may be lost. "
        "Whether open connections are cut is up to the network of the cluster."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await self.workload(servers, target).isolate()
        if not await until(lambda: _refuses(servers, target), EFFECT_SECONDS_MAX, _POLL_SECONDS):
            raise ServerUnreachableError(
                f"{servers.nodes[target].title} takes connections {EFFECT_SECONDS_MAX:.0f} s after a policy that "
                "lets none in; see that the network plugin of the cluster enforces NetworkPolicies"
            )

    async def heal(self, servers: Servers, target: str) -> None:
        if self.hindrance(servers, target) is not None:
            return  # it never happened here
        await self.workload(servers, target).rejoin()
        if not await until(lambda: _answers(servers, target), SERVING_SECONDS_MAX, _POLL_SECONDS):
            raise ServerUnreachableError(
                f"{servers.nodes[target].title} takes no connection {SERVING_SECONDS_MAX:.0f} s after the policy "
                "was taken back; see its pods"
            )


async def _answers(servers: Servers, target: str) -> bool:
    try:
        await servers.telemetry(target)
    except ServerUnreachableError:
        return False
    return True


async def _refuses(servers: Servers, target: str) -> bool:
    return not await _answers(servers, target)
