"""An older server is started on the same data."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from soak.faults.on_redis import RedisFault, writes_a_log

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed

NEWER = "valkey"
NEWER_LOG = "appendonlydir"


class Downgrade(RedisFault):
    """Valkey becomes Redis 6.2, which does not look where Valkey has put its append-only file, and begins empty.

    It is for good: the data is as lost as it is to an operator who finds out a day later.
    """

    name = "downgrade"
    kind = "downgrade"
    description = (
        "Valkey is stopped in good order and Redis 6.2 is started on its data, for good; it starts empty without an "
        "error, and no contract but a cache's excuses it."
    )

    def unavailable(self, bed: LocalTestbed, target: str) -> str | None:
        reason = super().unavailable(bed, target)
        if reason is not None:
            return reason
        server = self.redis(bed, target)
        if server.flavour != NEWER:
            return f"{target} is the oldest server there is here; start the testbed with Valkey"
        if not writes_a_log(server):
            return "Redis 6.2 refuses a snapshot of Valkey, loudly; only an append-only file is lost in silence"
        return None

    async def inject(self, bed: LocalTestbed, target: str) -> None:
        server = self.redis(bed, target)
        await server.stop_cleanly()
        server.become("redis")

    async def heal(self, bed: LocalTestbed, target: str) -> None:
        server = self.redis(bed, target)
        await server.start_again()
        if server.flavour != NEWER:
            # An upgrade later on would read what was there before this, instead of what is there by then.
            log = server.working_folder / NEWER_LOG
            await asyncio.to_thread(shutil.rmtree, log, ignore_errors=True)
