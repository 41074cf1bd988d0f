"""The server's processes are killed at one moment."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Fault
from soak.servers.servers import Servers


class Crash(Fault):
    """SIGKILL of the whole tree. The page cache survives, so this says nothing about what was synced."""

    name = "crash"
    on_groups = True
    excuses = Excuse.CRASH
    promotes = Promotion.NONE
    down = True
    description = "All processes of the server are killed; what it had not yet written to a file is lost."

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].kill()
