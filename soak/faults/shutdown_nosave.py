"""The server ends without saving (SHUTDOWN NOSAVE)."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import RedisFault
from soak.servers.servers import Servers


class ShutdownNosave(RedisFault):
    """`SHUTDOWN NOSAVE`, which many scripts use because it is fast."""

    name = "shutdown_nosave"
    excuses = Excuse.CRASH
    promotes = Promotion.NONE
    down = True
    description = (
        "The server ends by SHUTDOWN NOSAVE and is started again. With an append-only file nothing may be lost; "
        "with snapshots alone, everything since the last snapshot is lost."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await self.redis(servers, target).shut_down(save=False)
