"""Syncing takes its time."""

from __future__ import annotations

from soak.checker.faults import Excuse
from soak.faults.on_disk import DiskFault

DELAY_MS_DEFAULT = 300


class SlowFsync(DiskFault):
    """A noisy neighbour, a cloud disk out of credits: every sync waits."""

    name = "slow_fsync"
    excuses = Excuse.NOTHING
    description = (
        "Every sync takes 0.3 s longer; who waits for the disk before answering answers late, and nothing may be lost."
    )

    def __init__(self, delay_ms: int = DELAY_MS_DEFAULT) -> None:
        """Let each sync take so much longer."""
        self.trouble = {"sync_delay_ms": delay_ms}
