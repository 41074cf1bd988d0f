"""Promises by name, for `preset = "redis-everysec"` in a contract: how the data is kept, and nothing else."""

from __future__ import annotations

import msgspec

from soak.contracts.guarantees import (
    EVERYSEC_LOSS_SECONDS,
    WAL_WRITER_DELAY_SECONDS,
    WAL_WRITER_ROUNDS,
    WAL_WRITER_SLACK_SECONDS,
    rdb_loss_seconds,
)

KEY = "preset"

_ASYNC_SECONDS = round(WAL_WRITER_ROUNDS * WAL_WRITER_DELAY_SECONDS + WAL_WRITER_SLACK_SECONDS, 3)
_RDB_SECONDS = rdb_loss_seconds([(3600.0, 1)])


class ContractPreset(msgspec.Struct, frozen=True, kw_only=True):
    """The clauses of a preset; every other clause stays the store's own."""

    description: str
    crash_loss_seconds: float | None
    power_loss_seconds: float | None
    eviction_allowed: bool = False

    def clauses(self) -> dict[str, object]:
        return {
            "crash_loss_seconds": self.crash_loss_seconds,
            "power_loss_seconds": self.power_loss_seconds,
            # A replica that is promoted too soon may lack no more than a crash may take.
            "failover_loss_seconds": self.crash_loss_seconds,
            "eviction_allowed": self.eviction_allowed,
        }


PRESETS: dict[str, ContractPreset] = {
    "redis-everysec": ContractPreset(
        description="appendonly yes, appendfsync everysec, noeviction",
        crash_loss_seconds=EVERYSEC_LOSS_SECONDS,
        power_loss_seconds=EVERYSEC_LOSS_SECONDS,
    ),
    "redis-always": ContractPreset(
        description="appendonly yes, appendfsync always, noeviction", crash_loss_seconds=0.0, power_loss_seconds=0.0
    ),
    "redis-rdb": ContractPreset(
        description="no AOF, a save at least every hour (save 3600 1), noeviction",
        crash_loss_seconds=_RDB_SECONDS,
        power_loss_seconds=_RDB_SECONDS,
    ),
    "postgres-sync": ContractPreset(
        description="synchronous_commit on, fsync on", crash_loss_seconds=0.0, power_loss_seconds=0.0
    ),
    "postgres-async": ContractPreset(
        description="synchronous_commit off, fsync on, wal_writer_delay 200ms",
        crash_loss_seconds=_ASYNC_SECONDS,
        power_loss_seconds=_ASYNC_SECONDS,
    ),
    "sqlite-full": ContractPreset(
        description="journal_mode wal, synchronous full", crash_loss_seconds=0.0, power_loss_seconds=0.0
    ),
    "sqlite-normal": ContractPreset(
        description="journal_mode wal, synchronous normal: all since the last checkpoint, in a power cut",
        crash_loss_seconds=0.0,
        power_loss_seconds=None,
    ),
    "cache": ContractPreset(
        description="may lose anything, at any time",
        crash_loss_seconds=None,
        power_loss_seconds=None,
        eviction_allowed=True,
    ),
}
