"""The server stands still with its connections open."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Fault
from soak.servers.node_group import NodeGroup
from soak.servers.servers import Servers


class Pause(Fault):
    """SIGSTOP of the whole tree: a long garbage collection, a live migration, a host that swaps."""

    name = "pause"
    on_groups = True
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "The server stands still and answers nobody, then goes on; requests that timed out may yet be applied."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].pause()

    async def heal(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        await server.resume()
        if isinstance(server, NodeGroup):
            await server.until_agreed()  # its nodes may have given each other up
