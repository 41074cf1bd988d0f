"""An older server is started on the same data."""

from __future__ import annotations

import asyncio
import shutil

from soak.checker.faults import Excuse
from soak.faults.on_redis import RedisFault, changeable, redis_process, writes_a_log
from soak.servers.bed import Testbed
from soak.servers.redis_process import LOG_FOLDER
from soak.servers.versions import REDIS, Release


class Downgrade(RedisFault):
    """A newer server becomes Redis 6.2, which does not look where newer ones put their file, and begins empty.

    It is for good: the data is as lost as it is to an operator who finds out a day later.
    """

    name = "downgrade"
    excuses = Excuse.CLEAN
    down = True
    description = (
        "Redis 7 or Valkey is stopped in good order and Redis 6.2 is started on its data, for good; it starts empty "
        "without an error, and no contract but a cache's excuses it."
    )

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        server = self.redis(bed, target)
        process = redis_process(server)
        if process is None:
            return "only where the server is a process on this machine"
        if not process.version.has_log_folder:
            return f"{target} is the oldest server there is here; start a newer one (--redis valkey-9)"
        if not writes_a_log(server):
            return "Redis 6.2 refuses a snapshot of a newer server, loudly; only an append-only file is lost in silence"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        server = self.redis(bed, target)
        process = changeable(server, self.name)
        await server.stop_cleanly()
        process.become(Release(REDIS))

    async def heal(self, bed: Testbed, target: str) -> None:
        server = self.redis(bed, target)
        await server.start_again()
        process = redis_process(server)
        if process is not None and not process.version.has_log_folder:
            # An upgrade later on would read what was there before this, instead of what is there by then.
            log = server.working_folder / LOG_FOLDER
            await asyncio.to_thread(shutil.rmtree, log, ignore_errors=True)
