"""Promises by name, for `preset = "redis-everysec"` in a contract: how the data is kept, and nothing else."""

from __future__ import annotations

import msgspec

from soak.contracts.guarantees import (
    ASYNC_REPLICATION_LOSS_SECONDS,
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
    failover_loss_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    """Unset: a replica that is promoted too soon may lack no more than a crash may take."""
    eviction_allowed: bool = False

    def clauses(self) -> dict[str, object]:
        failover = self.failover_loss_seconds
        return {
            "crash_loss_seconds": self.crash_loss_seconds,
            "power_loss_seconds": self.power_loss_seconds,
            "failover_loss_seconds": self.crash_loss_seconds if failover is msgspec.UNSET else failover,
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
    "patroni-async": ContractPreset(
        description="Patroni as it is by default: synchronous_commit on, fsync on, asynchronous replication",
        crash_loss_seconds=0.0,
        power_loss_seconds=0.0,
        failover_loss_seconds=ASYNC_REPLICATION_LOSS_SECONDS,
    ),
    "patroni-sync": ContractPreset(
        description="Patroni with synchronous_mode: a commit waits for a standby",
        crash_loss_seconds=0.0,
        power_loss_seconds=0.0,
        failover_loss_seconds=0.0,
    ),
    "sync-standby": ContractPreset(
        description="synchronous_standby_names set, synchronous_commit on: a commit waits for the standby",
        crash_loss_seconds=0.0,
        power_loss_seconds=0.0,
        failover_loss_seconds=0.0,
    ),
    "cache": ContractPreset(
        description="may lose anything, at any time",
        crash_loss_seconds=None,
        power_loss_seconds=None,
        eviction_allowed=True,
    ),
}
