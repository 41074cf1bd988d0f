"""All planted bugs, by name, in the order of the documentation."""

from __future__ import annotations

import importlib

from soak.errors import UsageError
from soak.flaws.flaw import Flaw
from soak.suggestion import did_you_mean

_NAMES = (
    "whole_history_overwrite",
    "context_window_merge",
    "app_clock_order",
    "same_timestamp_ties",
    "replica_reads",
    "two_query_context",
    "serializer_v2",
    "rdb_only",
    "persistence_off",
    "empty_primary",
    "unconfirmed_failover",
    "unsynced_tail",
    "everysec_as_always",
    "waitaof_everysec",
    "sqlite_normal",
    "swallowed_error",
    "pool_exhausted",
    "lru_eviction",
    "ttl_shortened",
    "ttl_not_refreshed",
    "shared_namespace",
    "key_case",
    "ack_before_flush",
    "wiped_volume",
    "client_retry",
    "content_dedup",
    "read_cap",
    "empty_on_error",
    "delete_then_late_write",
    "lossy_text",
    "index_behind",
    "forgotten_in_index",
    "search_across_tenants",
    "dirty_read",
    "refused_but_visible",
    "raising_reader",
    "newest_lost",
    "edited_in_place",
    "trimmed",
    "read_cache",
    "replica_snapshot",
    "rare_loss",
    "rare_corruption",
)

_OF_GROUPS = (
    "shared_cluster_client",
    "cluster_partition",
    "min_replicas_one",
    "wait_one",
    "async_standby",
    "cancelled_commits",
)

ALL: dict[str, Flaw] = {name: importlib.import_module(f"soak.flaws.{name}").FLAW for name in _NAMES}
TOPOLOGIES: dict[str, Flaw] = {name: importlib.import_module(f"soak.flaws.{name}").FLAW for name in _OF_GROUPS}
"""Those on groups of nodes that take longer: a group forms, and replaces its primary, in its own time."""


def find(name: str) -> Flaw:
    """Return the flaw of this name; `UsageError` says which one may have been meant."""
    flaw = ALL.get(name) or TOPOLOGIES.get(name)
    if flaw is None:
        hint = did_you_mean(name, {**ALL, **TOPOLOGIES}, "'soak flaws' lists them")
        raise UsageError(f"there is no flaw {name!r}; {hint}")
    return flaw
