"""A network policy lets nobody in to the server."""

from __future__ import annotations

import asyncio
import time

from soak.checker.faults import Excuse
from soak.errors import ServerUnreachableError
from soak.faults.fault import KubernetesFault
from soak.faults.healing import SERVING_SECONDS_MAX
from soak.servers.servers import Servers

EFFECT_SECONDS_MAX = 30.0
"""For the network of the cluster to follow the policy."""
_POLL_SECONDS = 0.2


class PolicyPartition(KubernetesFault):
    """A policy that was meant for others: new connections are not let in, from anywhere."""

    name = "policy_partition"
    excuses = Excuse.NOTHING
    description = (
        "A NetworkPolicy lets no new connection in to the pods; the server itself is well, and nothing may be lost. "
        "Whether open connections are cut is up to the network of the cluster."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await self.workload(servers, target).isolate()
        deadline = time.monotonic() + EFFECT_SECONDS_MAX
        while await _answers(servers, target):
            if time.monotonic() >= deadline:
                raise ServerUnreachableError(
                    f"{servers.nodes[target].title} takes connections {EFFECT_SECONDS_MAX:.0f} s after a policy that "
                    "lets none in; see that the network plugin of the cluster enforces NetworkPolicies"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def heal(self, servers: Servers, target: str) -> None:
        if self.hindrance(servers, target) is not None:
            return  # it never happened here
        await self.workload(servers, target).rejoin()
        deadline = time.monotonic() + SERVING_SECONDS_MAX
        while not await _answers(servers, target):
            if time.monotonic() >= deadline:
                raise ServerUnreachableError(
                    f"{servers.nodes[target].title} takes no connection {SERVING_SECONDS_MAX:.0f} s after the policy "
                    "was taken back; see its pods"
                )
            await asyncio.sleep(_POLL_SECONDS)


async def _answers(servers: Servers, target: str) -> bool:
    try:
        await servers.telemetry(target)
    except ServerUnreachableError:
        return False
    return True
