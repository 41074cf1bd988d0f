"""The end of the append-only file is missing."""

from __future__ import annotations

import asyncio

from soak.checker.faults import Excuse, Promotion
from soak.faults import spoiling
from soak.faults.fault import FaultUnavailableError, RedisFault, writes_a_log
from soak.faults.parameters import Bytes
from soak.servers.servers import Servers


class AofTruncation(RedisFault):
    """A copy that broke off, a filesystem check that cut: the server reads what is there and says nothing."""

    name = "aof_truncation"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "The server is stopped, the end of its append-only file is cut off, and it is started again; "
        "it drops the command that is torn without an error, and no contract excuses what is gone."
    )

    needs = "a server whose append-only file is on this machine"
    size = Bytes(4096, "what is cut off, at most half of the file", least=1, most=2**30)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        server = self.redis(servers, target)
        if not writes_a_log(server):
            return f"{target} keeps no append-only file; start it with appendonly yes"
        return None if server.backend.is_local_process else f"the files of {target} are not on this machine"

    async def inject(self, servers: Servers, target: str) -> None:
        server = self.redis(servers, target)
        await server.stop_cleanly()
        path = spoiling.append_only_file(server.working_folder)
        if path is None or await asyncio.to_thread(spoiling.cut_off, path, self.size) == 0:
            raise FaultUnavailableError(f"{self.name} of {target} found nothing in its append-only file to cut off")
