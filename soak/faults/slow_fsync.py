"""Syncing takes its time."""

from __future__ import annotations

from soak.checker.faults import Excuse, Promotion
from soak.faults.on_disk import DiskFault
from soak.faults.parameters import Time


class SlowFsync(DiskFault):
    """A noisy neighbour, a cloud disk out of credits: every sync waits."""

    name = "slow_fsync"
    excuses = Excuse.NOTHING
    promotes = Promotion.NONE
    description = (
        "Every sync takes longer by the delay; who waits for the disk before answering answers late, "
        "and nothing may be lost."
    )

    delay = Time(0.3, "how much longer every sync takes", least=0.001, most=60.0)

    @property
    def trouble(self) -> dict[str, int]:
        return {"sync_delay_ms": round(self.delay * 1000)}
