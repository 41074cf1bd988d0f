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
MIN_REPLICAS_LOSS_SECONDS = 2.0
"""The tail before a failover, as without it. It only ends sooner what a primary acknowledges alone: measured were up to
2.8 s in a silent partition, all of which is lost."""
ELASTICACHE_ASYNC_LOSS_SECONDS = 10.0
"""As its manual says."""
_RDB_SECONDS = rdb_loss_seconds([(3600.0, 1)])


class ContractPreset(msgspec.Struct, frozen=True, kw_only=True):
    """The clauses of a preset; every other clause stays the store's own."""

    description: str
    crash_loss_seconds: float | None
    power_loss_seconds: float | None
    eviction_allowed: bool = False
    failover_loss_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    """Unset: a replica that is promoted too soon may lack no more than a crash may take."""

    @property
    def failover_seconds(self) -> float | None:
        declared = self.failover_loss_seconds
        return self.crash_loss_seconds if isinstance(declared, msgspec.UnsetType) else declared

    def clauses(self) -> dict[str, object]:
        return {
            "crash_loss_seconds": self.crash_loss_seconds,
            "power_loss_seconds": self.power_loss_seconds,
            "failover_loss_seconds": self.failover_seconds,
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
    "sentinel-async": ContractPreset(
        description="Sentinel, AOF everysec on each node: a failover takes what the new primary had not received",
        crash_loss_seconds=EVERYSEC_LOSS_SECONDS,
        power_loss_seconds=EVERYSEC_LOSS_SECONDS,
        failover_loss_seconds=ASYNC_REPLICATION_LOSS_SECONDS,
    ),
    "sentinel-min-replicas": ContractPreset(
        description="the same with min-replicas-to-write for all and min-replicas-max-lag 1: not zero, for a primary "
        "that is alone stops acknowledging up to 3 s too late when packets vanish",
        crash_loss_seconds=EVERYSEC_LOSS_SECONDS,
        power_loss_seconds=EVERYSEC_LOSS_SECONDS,
        failover_loss_seconds=MIN_REPLICAS_LOSS_SECONDS,
    ),
    "cluster": ContractPreset(
        description="Redis Cluster, AOF everysec on each node: a failover takes what the new primary had not received",
        crash_loss_seconds=EVERYSEC_LOSS_SECONDS,
        power_loss_seconds=EVERYSEC_LOSS_SECONDS,
        failover_loss_seconds=ASYNC_REPLICATION_LOSS_SECONDS,
    ),
    "elasticache-async": ContractPreset(
        description="ElastiCache, durability async: the log is written after the reply, and writes are refused when "
        "it is 10 s behind",
        crash_loss_seconds=ELASTICACHE_ASYNC_LOSS_SECONDS,
        power_loss_seconds=ELASTICACHE_ASYNC_LOSS_SECONDS,
    ),
    "elasticache-sync": ContractPreset(
        description="ElastiCache, durability sync: a reply means that two zones have the write in their log",
        crash_loss_seconds=0.0,
        power_loss_seconds=0.0,
    ),
    "memorydb": ContractPreset(
        description="MemoryDB: a reply means that the log of several zones has the write",
        crash_loss_seconds=0.0,
        power_loss_seconds=0.0,
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
