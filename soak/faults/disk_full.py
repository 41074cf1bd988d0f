"""There is no room left on the server's disk."""

from __future__ import annotations

import errno

from soak.checker.faults import Excuse, Promotion
from soak.faults.on_disk import DiskFault


class DiskFull(DiskFault):
    """No file can grow: ENOSPC, for logs, tables and append-only files alike."""

    name = "disk_full"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "The disk has no room for another byte; a Redis that syncs every second refuses writes, one that syncs always "
        "ends, PostgreSQL refuses rows; nothing that was acknowledged may be lost."
    )

    @property
    def trouble(self) -> dict[str, int]:
        return {"growth_error": errno.ENOSPC}
