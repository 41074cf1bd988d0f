"""What the servers under test report of themselves, as Prometheus metrics.

A server that does not answer says nothing: `soak_server_answers` is 0, and all else of it vanishes until it answers
again: an old number would be worse than none. What a server counts itself begins at zero when it
starts, as `rate()` expects of a counter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from soak.checker.telemetry import ServerSample

Value = Callable[[ServerSample], float | None]


def server_metrics(servers: Mapping[str, ServerSample | None]) -> Iterator[Metric]:
    """Tell of each server what its last sample holds; None stands for one that did not answer."""
    answers = GaugeMetricFamily(
        "soak_server_answers", "Whether the server answered when it was last asked.", labels=["server"]
    )
    for server, sample in servers.items():
        answers.add_metric([server], int(sample is not None))
    yield answers
    for family, rows in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
        for name, text, value in rows:
            told = {server: value(sample) for server, sample in servers.items() if sample is not None}
            known = {server: number for server, number in told.items() if number is not None}
            if known:
                metric = family(name, text, labels=["server"])
                for server, number in known.items():
                    metric.add_metric([server], number)
                yield metric


def _number(*names: str) -> Value:
    """Return the first of these that the server reports, as a number."""

    def value(sample: ServerSample) -> float | None:
        return next((number for name in names if (number := _parsed(sample.telemetry.get(name))) is not None), None)

    return value


def _is(name: str, wanted: str) -> Value:
    def value(sample: ServerSample) -> float | None:
        told = sample.telemetry.get(name)
        return None if told is None else float(told == wanted)

    return value


def _parsed(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _has_log(sample: ServerSample) -> float | None:
    setting = sample.configuration.get("appendonly")
    return None if setting is None else float(setting == "yes")


def _has_snapshots(sample: ServerSample) -> float | None:
    setting = sample.configuration.get("save")
    return None if setting is None else float(setting != "")


def _snapshot_age_seconds(sample: ServerSample) -> float | None:
    saved = _parsed(sample.telemetry.get("rdb_last_save_time"))
    now = _parsed(sample.telemetry.get("server_time_usec"))
    # By the server's own clock, which may not be ours.
    return None if saved is None or now is None else max(0.0, now / 1e6 - saved)


_GAUGES: tuple[tuple[str, str, Value], ...] = (
    ("soak_server_uptime_seconds", "Time since it started.", _number("uptime_in_seconds", "uptime_seconds")),
    ("soak_server_connections", "Connections of all its clients.", _number("connected_clients", "connections")),
    ("soak_server_connections_max", "Connections it takes at most.", _number("maxclients", "max_connections")),
    ("soak_server_replicas", "Replicas that are connected to it.", _number("connected_slaves", "replicas")),
    (
        "soak_server_replication_lag_bytes",
        "A primary: how far its slowest replica is behind. A replica: what it has received and not applied.",
        _number("replication_lag_bytes"),
    ),
    (
        "soak_server_replication_lag_seconds",
        "PostgreSQL: age of the last transaction applied, 0 if none waits. Redis: time since the replica's report.",
        _number("replication_lag_seconds"),
    ),
    ("soak_server_memory_used_bytes", "Redis: memory in use.", _number("used_memory")),
    ("soak_server_memory_max_bytes", "Redis: maxmemory; 0: no limit.", _number("maxmemory")),
    ("soak_server_keys", "Redis: keys in the database.", _number("keys")),
    ("soak_server_aof_enabled", "Redis: whether there is an append-only file.", _has_log),
    ("soak_server_aof_size_bytes", "Redis: size of the append-only file.", _number("aof_current_size")),
    (
        "soak_server_aof_buffer_bytes",
        "Redis: acknowledged bytes not yet written to the append-only file.",
        _number("aof_buffer_length"),
    ),
    ("soak_server_aof_pending_fsyncs", "Redis: syncs that are waiting.", _number("aof_pending_bio_fsync")),
    (
        "soak_server_aof_last_write_ok",
        "Redis: whether the append-only file could be written.",
        _is("aof_last_write_status", "ok"),
    ),
    ("soak_server_rdb_enabled", "Redis: whether snapshots are taken on a schedule.", _has_snapshots),
    ("soak_server_rdb_last_save_age_seconds", "Redis: age of the last snapshot.", _snapshot_age_seconds),
    (
        "soak_server_rdb_unsaved_changes",
        "Redis: changes since the last snapshot.",
        _number("rdb_changes_since_last_save"),
    ),
    ("soak_server_rdb_last_save_ok", "Redis: whether a snapshot could be taken.", _is("rdb_last_bgsave_status", "ok")),
    ("soak_server_database_size_bytes", "PostgreSQL, SQLite: size of the database.", _number("database_bytes")),
)

_COUNTERS: tuple[tuple[str, str, Value], ...] = (
    ("soak_server_evicted_keys", "Redis: keys evicted for lack of memory.", _number("evicted_keys")),
    ("soak_server_expired_keys", "Redis: keys whose time to live was over.", _number("expired_keys")),
    ("soak_server_rejected_connections", "Redis: connections beyond the limit.", _number("rejected_connections")),
    ("soak_server_aof_delayed_fsyncs", "Redis: writes that had to wait for a sync.", _number("aof_delayed_fsync")),
    (
        "soak_server_wal_bytes",
        "PostgreSQL: position in the write-ahead log, written or replayed.",
        _number("wal_bytes"),
    ),
    ("soak_server_checkpoints", "PostgreSQL: checkpoints, timed and asked for.", _number("checkpoints")),
    ("soak_server_commits", "PostgreSQL: transactions committed.", _number("xact_commit")),
    ("soak_server_rollbacks", "PostgreSQL: transactions rolled back.", _number("xact_rollback")),
    ("soak_server_deadlocks", "PostgreSQL: deadlocks.", _number("deadlocks")),
)
