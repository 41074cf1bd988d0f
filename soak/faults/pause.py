"""The server stands still with its connections open."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.fault import Fault
from soak.servers.bed import Testbed


class Pause(Fault):
    """SIGSTOP of the whole tree: a long garbage collection, a live migration, a host that swaps."""

    name = "pause"
    excuses = Excuse.NOTHING
    description = (
        "The server stands still and answers nobody, then goes on; requests that timed out may yet be applied."
    )
    targets = ("redis", "postgres", "postgres-replica", "chroma", "http")

    async def inject(self, bed: Testbed, target: str) -> None:
        await bed.servers[target].pause()

    async def heal(self, bed: Testbed, target: str) -> None:
        await bed.servers[target].resume()
