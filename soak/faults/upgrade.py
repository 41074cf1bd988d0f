"""A newer server is started on the same data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.faults.on_redis import RedisFault, changeable, redis_process
from soak.testbed.versions import VALKEY

if TYPE_CHECKING:
    from soak.testbed.bed import Testbed


class Upgrade(RedisFault):
    """An older Redis becomes Valkey. It is for good: what the newer one writes the older one cannot read."""

    name = "upgrade"
    kind = "upgrade"
    description = "Redis is stopped in good order and Valkey is started on its data, for good; nothing may be lost."
    targets = ("redis", "postgres")

    def unavailable(self, bed: Testbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is not None:
            return reason
        if target == "postgres":
            return "a PostgreSQL is upgraded by pg_upgrade into a new cluster, which the testbed cannot do yet"
        process = redis_process(self.redis(bed, target))
        if process is None:
            return "only where the server is a process on this machine"
        if process.version.family == VALKEY.family:
            return f"{target} is the newest server there is here; start an older one (--redis 6.2)"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        server = self.redis(bed, target)
        process = changeable(server, self.name)
        await server.stop_cleanly()
        process.become(VALKEY)

    async def heal(self, bed: Testbed, target: str) -> None:
        """Bring it back as what it is now."""
        await bed.servers[target].start_again()
