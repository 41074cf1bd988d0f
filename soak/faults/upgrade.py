"""A newer server is started on the same data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.faults.on_redis import RedisFault

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed

OLDER, NEWER = "redis", "valkey"


class Upgrade(RedisFault):
    """Redis 6.2 becomes Valkey. It is for good: what the newer one writes the older one cannot read."""

    name = "upgrade"
    kind = "upgrade"
    description = "Redis 6.2 is stopped in good order and Valkey is started on its data, for good; nothing may be lost."
    targets = ("redis", "postgres")

    def unavailable(self, bed: LocalTestbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is not None:
            return reason
        if target == "postgres":
            return "a PostgreSQL is upgraded by pg_upgrade into a new cluster, which the testbed cannot do yet"
        if self.redis(bed, target).flavour != OLDER:
            return f"{target} is the newest server there is here; start the testbed with Redis 6.2"
        return None

    async def inject(self, bed: LocalTestbed, target: str) -> None:
        server = self.redis(bed, target)
        await server.stop_cleanly()
        server.become("valkey")

    async def heal(self, bed: LocalTestbed, target: str) -> None:
        """Bring it back as what it is now."""
        await bed.servers[target].start_again()
