"""A process that writes to a SQLite file is killed."""

from __future__ import annotations

import asyncio

import psutil

from soak.checker.faults import Excuse, Promotion
from soak.errors import ServerUnreachableError
from soak.faults.fault import SqliteFault
from soak.servers.servers import Servers


class WriterCrash(SqliteFault):
    """SIGKILL at any moment: the next process to open the file finds a write-ahead log that was not closed."""

    name = "writer_crash"
    excuses = Excuse.CRASH
    promotes = Promotion.NONE
    ends_load = True
    description = (
        "One of the load's processes that write to the file is killed; the others go on, and nothing that was "
        "acknowledged may be lost."
    )
    needs = "a process of the load that has the file open"

    async def inject(self, servers: Servers, target: str) -> None:
        writers = await asyncio.to_thread(self.file(servers, target).writers)
        if not writers:
            raise ServerUnreachableError(f"no process of the load has the file of {target} open for writing")
        # The one that started last: with several workers, that is not the one that leads the others.
        victim = writers[-1]
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            raise ServerUnreachableError(f"process {victim.pid} ended before it could be killed") from None

    async def heal(self, servers: Servers, target: str) -> None:
        """Do nothing: the supervisor starts the load again."""
