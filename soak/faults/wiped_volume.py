"""The server comes back without its data."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Fault
from soak.servers.group import group_of
from soak.servers.kinds import SERVED, Role, names_of
from soak.servers.servers import Servers


class WipedVolume(Fault):
    """The volume is not there after a restart: never mounted, re-created, or cleaned by a job."""

    name = "wiped_volume"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = "The server crashes and comes back with an empty data folder; no contract excuses what is gone."
    targets = names_of(*SERVED, roles=(Role.PRIMARY,))

    needs = "a server without a replica"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if group_of(servers.nodes, target).replicas:
            return "a replica streams from this server and could not follow a new one"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        await server.kill()
        await server.wipe()
