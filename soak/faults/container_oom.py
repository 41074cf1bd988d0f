"""The server's container uses up its memory and is killed for it."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Fault
from soak.servers.kinds import Protocol, names_of
from soak.servers.servers import Servers


class ContainerOom(Fault):
    """The kernel kills the server at one moment, as it does when a limit was set too low."""

    name = "container_oom"
    excuses = Excuse.CRASH
    promotes = Promotion.NONE
    down = True
    description = (
        "The container's memory is used up and the kernel kills the server; "
        "what it had not yet written to a file is lost, as in a crash."
    )
    targets = names_of(Protocol.REDIS, Protocol.POSTGRES)

    needs = "a server in a container of soak's own"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        if servers.nodes[target].backend.memory_bytes is None:
            return "only in Docker: a local process has no memory limit of its own"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].exhaust_memory()
