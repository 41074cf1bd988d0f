"""The server is stopped by its operator, and started again."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import Fault
from soak.servers.servers import Servers


class Restart(Fault):
    """A clean stop: a server that persists anything persists everything now."""

    name = "restart"
    on_groups = True
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = "The server is stopped cleanly and started again; only a server without persistence loses anything."

    async def inject(self, servers: Servers, target: str) -> None:
        await servers.nodes[target].stop_cleanly()
