"""Another process holds the write lock of a SQLite file."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.fault import SqliteFault
from soak.servers.servers import Servers


class SqliteLock(SqliteFault):
    """A backup, a VACUUM or a debugger with an open transaction: readers go on, writers wait and give up."""

    name = "sqlite_lock"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Another process holds the write lock; reads go on, writes wait and fail with 'database is locked', and none "
        "of those that failed may appear."
    )

    async def inject(self, servers: Servers, target: str) -> None:
        await self.file(servers, target).hold_write_lock()

    async def heal(self, servers: Servers, target: str) -> None:
        await self.file(servers, target).release_write_lock()
