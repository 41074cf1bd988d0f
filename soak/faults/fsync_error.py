"""The disk fails to sync."""

from __future__ import annotations

import errno

from soak.checker.faults import Excuse, Promotion
from soak.faults.on_disk import DiskFault
from soak.faults.parameters import Share

_MILLION = 1_000_000


class FsyncError(DiskFault):
    """EIO from fsync: nobody can tell whether what was written before it is on the disk.

    PostgreSQL ends and recovers from its log; a Redis that syncs every second refuses writes from then on.
    """

    name = "fsync_error"
    excuses = Excuse.POWER
    promotes = Promotion.NONE
    serves = True
    description = (
        "Syncs fail with an I/O error; as little may be lost as in a power cut, "
        "and a server that goes on acknowledging writes it could not sync loses more."
    )
    share = Share(1.0, "of the syncs of each process, evenly", least=0.001, most=1.0)

    @property
    def trouble(self) -> dict[str, int]:
        return {"sync_error": errno.EIO, "sync_errors_in_a_million": round(self.share * _MILLION)}
