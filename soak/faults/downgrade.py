"""An older server is started on the same data."""

from __future__ import annotations

import asyncio
import shutil

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import NOT_A_PROCESS, RedisFault, writes_a_log
from soak.servers.redis_process import LOG_FOLDER, RedisProcess
from soak.servers.servers import Servers
from soak.servers.versions import REDIS, ServerRelease


class Downgrade(RedisFault):
    """A newer server becomes Redis 6.2, which does not look where newer ones put their file, and begins empty.

    It is for good: the data is as lost as it is to an operator who finds out a day later.
    """

    name = "downgrade"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "Redis 7 or Valkey is stopped cleanly and Redis 6.2 is started on its data, for good; it starts empty "
        "without an error, and no contract but a cache's excuses it."
    )

    needs = "a Valkey, or a Redis from 7.0 on, that is a process on this machine and keeps an append-only file"

    def hindrance(self, servers: Servers, target: str) -> str | None:
        server = self.redis(servers, target)
        process = server.backend
        if not isinstance(process, RedisProcess):
            return NOT_A_PROCESS
        if not process.version.has_log_folder:
            return f"{target} is the oldest server there is here; start a newer one (--redis valkey-9)"
        if not writes_a_log(server):
            return "Redis 6.2 refuses a snapshot of a newer server, loudly; only an append-only file is lost in silence"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        process = server.backend
        if not isinstance(process, RedisProcess):
            raise self.refusal(servers, target)
        await server.stop_cleanly()
        process.become(ServerRelease(REDIS))

    async def heal(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        await server.start_again()
        process = server.backend
        if isinstance(process, RedisProcess) and not process.version.has_log_folder:
            # An upgrade later on would read what was there before this, instead of what is there by then.
            log = server.working_folder / LOG_FOLDER
            await asyncio.to_thread(shutil.rmtree, log, ignore_errors=True)
