"""Every fault of the catalogue is shown on a real server, and says what it is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from soak.checker.faults import Excuse, Promotion
from soak.faults import ALL, Fault
from soak.faults.catalogue import RECOVERY_KINDS
from tests.support.servers.breaking import running

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = {
    "restart": ("test_faults_servers", "test_a_server_that_is_down_comes_back_with_its_data_unless_they_were_wiped"),
    "restart_from_aof": ("test_faults_restarts", "test_a_server_with_an_append_only_file_loses_nothing"),
    "restart_from_rdb": (
        "test_faults_restarts",
        "test_a_move_by_snapshot_reads_the_snapshot_and_not_the_append_only_file",
    ),
    "shutdown_nosave": (
        "test_faults_restarts",
        "test_a_server_with_snapshots_alone_loses_what_came_after_the_last_unless_it_saves_as_it_ends",
    ),
    "crash": ("test_faults_servers", "test_a_crash_loses_what_was_in_no_file_and_a_clean_restart_does_not"),
    "container_oom": ("test_faults_versions", "test_versions_say_where_they_cannot_be_changed"),
    "power_cut": (
        "test_faults_power",
        "test_a_file_synced_every_second_loses_the_last_moments_and_only_those",
    ),
    "pause": ("test_faults_servers", "test_a_paused_server_answers_when_it_goes_on"),
    "partition": (
        "test_faults_network",
        "test_in_a_partition_nobody_is_told_anything_and_what_was_sent_arrives_afterwards",
    ),
    "connection_refused": ("test_faults_network", "test_nobody_reaches_a_server_in_an_outage"),
    "connection_reset": ("test_faults_network", "test_connections_that_are_reset_can_be_made_anew_at_once"),
    "latency": ("test_faults_network", "test_with_latency_every_answer_takes_its_time"),
    "slow_link": ("test_faults_network", "test_a_slow_link_lets_so_much_through_in_a_second"),
    "dropped_reply": ("test_faults_network", "test_writes_whose_reply_is_dropped_are_there"),
    "connection_exhaustion": (
        "test_faults_network",
        "test_a_storm_of_connections_keeps_new_clients_of_redis_out_and_serves_the_old",
    ),
    "replica_lag": (
        "test_faults_servers",
        "test_a_replica_shows_nothing_new_while_it_lags_and_everything_after",
    ),
    "failover": ("test_faults_failover", "test_a_promoted_replica_has_all_that_it_had_received"),
    "early_failover": ("test_faults_failover", "test_what_an_early_failover_takes_is_excused_by_no_strict_contract"),
    **dict.fromkeys(
        (
            "primary_crash",
            "primary_partition",
            "partial_partition",
            "sentinel_failover",
            "coordinated_failover",
            "cluster_failover",
            "cluster_failover_force",
            "cluster_takeover",
            "machine_crash",
            "rolling_restart",
        ),
        ("test_redis_groups", "test_a_failover_takes_what_it_is_known_to_take"),
    ),
    **dict.fromkeys(
        ("standby_outage", "standby_lag", "cancelled_commits"),
        ("test_postgres_groups", "test_a_failover_to_a_synchronous_standby_takes_nothing_but_what_was_cancelled"),
    ),
    **dict.fromkeys(
        ("patroni_switchover", "patroni_failover", "dcs_outage"),
        ("test_postgres_groups", "test_patroni_replaces_its_leader"),
    ),
    "primary_restart": (
        "test_redis_groups",
        "test_a_primary_that_is_back_at_once_wipes_its_replicas_where_it_keeps_nothing",
    ),
    "failover_command": (
        "test_redis_groups",
        "test_a_failover_past_the_sentinels_refuses_writes_until_they_promote_one_themselves",
    ),
    "standby_switchover": (
        "test_postgres_groups",
        "test_planned_changes_and_a_quick_restart_of_a_synchronous_pair_take_nothing",
    ),
    "link_cut": ("test_redis_groups", "test_one_link_is_cut_and_no_other"),
    "slot_migration": ("test_redis_groups", "test_slots_move_under_load_and_nothing_is_lost"),
    "rolling_upgrade": ("test_redis_groups", "test_a_group_is_upgraded_node_by_node"),
    **dict.fromkeys(
        ("slow_replication", "sentinel_away"),
        ("test_redis_groups", "test_slow_replicas_are_behind_and_a_sentinel_that_is_away_comes_back"),
    ),
    "eviction": ("test_faults_servers", "test_eviction_throws_acknowledged_keys_away_while_writes_go_on"),
    "ttl_change": ("test_faults_data", "test_keys_of_the_run_expire_and_those_of_others_stay"),
    "clock_step": ("test_faults_data", "test_a_redis_whose_clock_leaps_ahead_expires_keys_early"),
    "disk_full": (
        "test_faults_disk",
        "test_a_redis_that_syncs_every_second_refuses_writes_while_its_disk_is_full",
    ),
    "slow_fsync": ("test_faults_disk", "test_who_waits_for_a_slow_disk_before_answering_answers_late"),
    "fsync_error": (
        "test_faults_disk",
        "test_postgres_ends_when_it_cannot_sync_and_recovers_what_it_had_acknowledged",
    ),
    "file_corruption": ("test_faults_data", "test_a_redis_reads_rotten_messages_as_if_nothing_were_wrong"),
    "aof_truncation": ("test_faults_data", "test_a_redis_begins_with_what_is_left_of_its_append_only_file"),
    "upgrade": (
        "test_faults_versions",
        "test_after_an_upgrade_everything_is_there_and_the_next_start_is_of_the_newer_server",
    ),
    "downgrade": ("test_faults_versions", "test_after_a_downgrade_the_older_server_is_empty_without_an_error"),
    "sqlite_lock": (
        "test_faults_sqlite",
        "test_while_the_lock_is_held_elsewhere_writes_fail_for_certain_and_reads_go_on",
    ),
    "writer_crash": (
        "test_faults_sqlite",
        "test_one_writer_is_killed_and_the_others_go_on_with_all_it_had_acknowledged",
    ),
    "wiped_volume": (
        "test_faults_servers",
        "test_a_server_that_is_down_comes_back_with_its_data_unless_they_were_wiped",
    ),
    **dict.fromkeys(
        ("pod_delete", "pod_evict", "scale_to_zero", "rollout_restart"),
        ("test_faults_kubernetes", "test_the_server_is_another_process_afterwards_and_has_its_data"),
    ),
    "policy_partition": ("test_faults_kubernetes", "test_a_policy_lets_nobody_in_until_it_is_taken_back"),
}
HARMLESS = frozenset(
    [
        "pause",
        "partition",
        "connection_refused",
        "connection_reset",
        "latency",
        "slow_link",
        "dropped_reply",
        "connection_exhaustion",
        "replica_lag",
        "standby_outage",
        "standby_lag",
        "slow_replication",
        "sentinel_away",
        "eviction",
        "ttl_change",
        "disk_full",
        "slow_fsync",
        "sqlite_lock",
        "policy_partition",
    ]
)
FAILOVERS = (
    *("early_failover", "primary_crash", "primary_partition", "partial_partition"),
    *("sentinel_failover", "cluster_takeover", "machine_crash", "patroni_failover", "dcs_outage"),
    *("cancelled_commits", "cluster_failover_force", "failover_command", "rolling_upgrade", "link_cut"),
)
CLEAN = frozenset(
    [
        "restart",
        "restart_from_aof",
        "restart_from_rdb",
        "failover",
        "coordinated_failover",
        "cluster_failover",
        "patroni_switchover",
        "standby_switchover",
        "slot_migration",
        "rolling_restart",
        "upgrade",
        "downgrade",
        "clock_step",
        "file_corruption",
        "aof_truncation",
        "wiped_volume",
        "pod_evict",
        "scale_to_zero",
        "rollout_restart",
    ]
)


def test_every_fault_is_shown_by_a_test() -> None:
    assert set(SHOWN) == set(ALL)
    for module, test in SHOWN.values():
        assert callable(getattr(importlib.import_module(f"tests.integration.{module}"), test)), test


def test_every_fault_tells_what_it_is() -> None:
    for name, fault in ALL.items():
        assert isinstance(fault, Fault)
        assert fault.name == name
        assert fault.description.endswith(".")
        assert fault.targets
        assert "ledger" not in fault.targets


def test_what_each_fault_excuses_was_decided_and_not_left_open() -> None:
    excuses = {fault.kind: fault.excuses for fault in ALL.values()}
    assert excuses == {
        **dict.fromkeys(HARMLESS, Excuse.NOTHING),
        **dict.fromkeys(CLEAN, Excuse.CLEAN),
        **dict.fromkeys(("crash", "container_oom", "shutdown_nosave"), Excuse.CRASH),
        **dict.fromkeys(("primary_restart", "writer_crash", "pod_delete"), Excuse.CRASH),
        **dict.fromkeys(("power_cut", "fsync_error"), Excuse.POWER),
        **dict.fromkeys(FAILOVERS, Excuse.FAILOVER),
    }
    assert [fault.kind for fault in ALL.values() if fault.serves] == ["fsync_error"]
    assert set(RECOVERY_KINDS) == set(excuses) - HARMLESS


def test_each_fault_declares_whether_a_replica_becomes_the_primary() -> None:
    """What a read may be behind by depends on it (R12), so it is decided for each, and not by its name."""
    assert [name for name, fault in ALL.items() if not isinstance(fault.promotes, Promotion)] == []
    at_one_address = {name for name, fault in ALL.items() if fault.promotes is Promotion.AT_ONE_ADDRESS}
    assert at_one_address == {"failover", "early_failover"}
    beside = {name for name, fault in ALL.items() if fault.promotes is Promotion.BESIDE_THE_OLD}
    orderly = {
        "patroni_switchover",
        "standby_switchover",
        "coordinated_failover",
        "cluster_failover",
        "rolling_restart",
    }
    assert beside == {*FAILOVERS, *orderly} - at_one_address


async def test_a_fault_that_is_not_possible_says_why_in_one_line(tmp_path: Path) -> None:
    async with running(tmp_path, "redis") as servers:
        for fault in ALL.values():
            assert fault.unavailable(servers, "ledger")
            for target in fault.targets:
                reason = fault.unavailable(servers, target)
                assert reason is None or (reason and "\n" not in reason)
                assert reason or target in servers.nodes
