"""The server's container uses up its memory and is killed for it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from soak.checker.faults import Excuse
from soak.faults.fault import Fault, FaultUnavailableError
from soak.servers.bed import Testbed


@runtime_checkable
class Exhaustible(Protocol):
    """A server with a memory limit of its own."""

    async def exhaust_memory(self) -> None:
        """Use memory up until the kernel kills the server; it stays down until `start_again`."""


class ContainerOom(Fault):
    """The kernel kills the server at one moment, as it does when a limit was set too low."""

    name = "container_oom"
    excuses = Excuse.CRASH
    down = True
    description = (
        "The container's memory is used up and the kernel kills the server; "
        "what it had not yet handed to the kernel, or to no file, is lost, as in a crash."
    )
    targets = ("redis", "postgres", "postgres-replica")

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        if not isinstance(bed.servers[target], Exhaustible):
            return "only in Docker: a local process has no memory limit of its own"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        server = bed.servers[target]
        if not isinstance(server, Exhaustible):
            raise FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(bed, target)}")
        await server.exhaust_memory()
