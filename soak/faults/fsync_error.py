"""The disk fails to sync."""

from __future__ import annotations

import errno
from types import MappingProxyType

from soak.checker.faults import Excuse
from soak.faults.on_disk import DiskFault


class FsyncError(DiskFault):
    """EIO from every sync: what was written before it may or may not be on the disk, and nobody can tell.

    PostgreSQL ends and recovers from its log; a Redis that syncs every second refuses writes from then on.
    """

    name = "fsync_error"
    excuses = Excuse.POWER
    serves = True
    trouble = MappingProxyType({"sync_error": errno.EIO})
    description = (
        "Every sync fails with an I/O error; as little may be lost as in a power cut, "
        "and a server that goes on acknowledging writes it could not sync loses more."
    )
