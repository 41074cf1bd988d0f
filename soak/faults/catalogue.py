"""All faults by name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from soak.checker.faults import Excuse
from soak.errors import UsageError
from soak.faults.aof_truncation import AofTruncation
from soak.faults.cancelled_commits import CancelledCommits
from soak.faults.clock_step import ClockStep
from soak.faults.cluster_failover import ClusterFailover
from soak.faults.cluster_failover_force import ClusterFailoverForce
from soak.faults.cluster_takeover import ClusterTakeover
from soak.faults.connection_exhaustion import ConnectionExhaustion
from soak.faults.connection_refused import ConnectionRefused
from soak.faults.connection_reset import ConnectionReset
from soak.faults.container_oom import ContainerOom
from soak.faults.coordinated_failover import CoordinatedFailover
from soak.faults.crash import Crash
from soak.faults.dcs_outage import DcsOutage
from soak.faults.disk_full import DiskFull
from soak.faults.downgrade import Downgrade
from soak.faults.dropped_reply import DroppedReply
from soak.faults.early_failover import EarlyFailover
from soak.faults.eviction import Eviction
from soak.faults.failover import Failover
from soak.faults.failover_command import FailoverCommand
from soak.faults.fault import Fault
from soak.faults.file_corruption import FileCorruption
from soak.faults.fsync_error import FsyncError
from soak.faults.latency import Latency
from soak.faults.link_cut import LinkCut
from soak.faults.machine_crash import MachineCrash
from soak.faults.parameters import Given, ParameterListing
from soak.faults.partial_partition import PartialPartition
from soak.faults.partition import Partition
from soak.faults.patroni_failover import PatroniFailover
from soak.faults.patroni_switchover import PatroniSwitchover
from soak.faults.pause import Pause
from soak.faults.pod_delete import PodDelete
from soak.faults.pod_evict import PodEvict
from soak.faults.policy_partition import PolicyPartition
from soak.faults.power_cut import PowerCut
from soak.faults.primary_crash import PrimaryCrash
from soak.faults.primary_partition import PrimaryPartition
from soak.faults.primary_restart import PrimaryRestart
from soak.faults.replica_lag import ReplicaLag
from soak.faults.restart import Restart
from soak.faults.restart_from_aof import RestartFromAof
from soak.faults.restart_from_rdb import RestartFromRdb
from soak.faults.rolling_restart import RollingRestart
from soak.faults.rolling_upgrade import RollingUpgrade
from soak.faults.rollout_restart import RolloutRestart
from soak.faults.scale_to_zero import ScaleToZero
from soak.faults.sentinel_away import SentinelAway
from soak.faults.sentinel_failover import SentinelFailover
from soak.faults.shutdown_nosave import ShutdownNosave
from soak.faults.slot_migration import SlotMigration
from soak.faults.slow_fsync import SlowFsync
from soak.faults.slow_link import SlowLink
from soak.faults.slow_replication import SlowReplication
from soak.faults.sqlite_lock import SqliteLock
from soak.faults.standby_lag import StandbyLag
from soak.faults.standby_outage import StandbyOutage
from soak.faults.standby_switchover import StandbySwitchover
from soak.faults.ttl_change import TtlChange
from soak.faults.upgrade import Upgrade
from soak.faults.wiped_volume import WipedVolume
from soak.faults.writer_crash import WriterCrash
from soak.suggestion import did_you_mean


class FaultListing(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, what it does, and where it can happen."""

    fault: str
    description: str
    targets: dict[str, str | None]
    """By server: why it cannot happen to it here; None: it can."""
    excuses: Excuse
    """What the contract lets it take."""
    parameters: list[ParameterListing]


ALL: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Restart(),
        RestartFromAof(),
        RestartFromRdb(),
        ShutdownNosave(),
        Crash(),
        ContainerOom(),
        PowerCut(),
        Pause(),
        Partition(),
        ConnectionRefused(),
        ConnectionReset(),
        Latency(),
        SlowLink(),
        DroppedReply(),
        ConnectionExhaustion(),
        ReplicaLag(),
        Failover(),
        EarlyFailover(),
        PrimaryCrash(),
        PrimaryRestart(),
        MachineCrash(),
        PrimaryPartition(),
        PartialPartition(),
        LinkCut(),
        PatroniSwitchover(),
        PatroniFailover(),
        DcsOutage(),
        CancelledCommits(),
        StandbyOutage(),
        StandbyLag(),
        StandbySwitchover(),
        SentinelFailover(),
        CoordinatedFailover(),
        FailoverCommand(),
        ClusterFailover(),
        ClusterFailoverForce(),
        ClusterTakeover(),
        SlotMigration(),
        RollingRestart(),
        RollingUpgrade(),
        SlowReplication(),
        SentinelAway(),
        Eviction(),
        TtlChange(),
        ClockStep(),
        DiskFull(),
        SlowFsync(),
        FsyncError(),
        FileCorruption(),
        AofTruncation(),
        Upgrade(),
        Downgrade(),
        WipedVolume(),
        SqliteLock(),
        WriterCrash(),
        PodDelete(),
        PodEvict(),
        ScaleToZero(),
        RolloutRestart(),
        PolicyPartition(),
    )
}
ALIASES = {alias: fault.name for fault in ALL.values() for alias in fault.aliases}
"""Names that faults had before, and what each is called now."""
RECOVERY_KINDS = tuple(fault.kind for fault in ALL.values() if fault.excuses is not Excuse.NOTHING)
"""The kinds of faults that a server has to recover its data from."""


def current_name(name: str) -> str:
    """Return what a fault of this name, which may be an old one, is called now; any other name as it is."""
    return ALIASES.get(name, name)


def fault_named(name: str, parameters: Mapping[str, Given] | None = None) -> Fault:
    """Return the fault of this name, which may be an old one, set so; raises `UsageError` where there is none."""
    if (fault := ALL.get(current_name(name))) is None:
        hint = did_you_mean(name, (*ALL, *ALIASES), "'soak faults' lists them")
        raise UsageError(f"there is no fault {name!r}; {hint}")
    return fault.having(parameters or {})


def listing(possible: Mapping[str, Mapping[str, str | None]]) -> list[FaultListing]:
    """Tell of every fault what it does, and where it can happen."""
    return [
        FaultListing(
            fault=name,
            description=fault.description,
            targets={target: faults[name] for target, faults in possible.items() if name in faults},
            excuses=fault.excuses,
            parameters=[one.listing() for one in fault.parameters().values()],
        )
        for name, fault in ALL.items()
    ]
