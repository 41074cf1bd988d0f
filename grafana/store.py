"""How a store fares: its answers, and what its servers say of themselves."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.frame import dashboard
from grafana.layout import Band, Section
from grafana.panels import GREEN, ORANGE, RED, Column, Query, graph, heat, rows, timeline
from grafana.queries import SERVER, STORE, increase, quantile, rate, series, total

OPERATIONS = {
    "append": "Writing a message.",
    "history": "A participant reading its conversation.",
    "recall": "A participant coming back to an old conversation.",
    "search": "A participant looking for an earlier message, in stores that can be searched.",
    "forget": "Forgetting a conversation.",
    "sweep": "The verifier reading a whole conversation back.",
}


def make() -> Dashboard:
    return dashboard(
        uid="soak-store",
        title="soak / Store",
        description="Latency, staleness, unknown outcomes, and what the servers say of themselves.",
        choices=["store", "server"],
        since="now-3h",
        sections=[
            Section("Servers", _servers()),
            Section("Latency of $store", _latency(), repeated_by="store", is_collapsed=True),
            Section("Outcomes on $store", _outcomes(), repeated_by="store", is_collapsed=True),
            Section(
                "$store: reads that come too late, old sessions, and searches",
                _reads(),
                repeated_by="store",
                is_collapsed=True,
            ),
            Section("Redis and Valkey", _redis(), is_collapsed=True),
            Section("PostgreSQL", _postgres(), is_collapsed=True),
            Section("Contract and configuration", _promises(), is_collapsed=True),
        ],
    )


def _latency() -> list[Band]:
    heats = [
        heat(
            f"Latency of {operation}",
            f"{words} Colour: how many per second took so long.",
            Query(
                total("le", rate("soak_operation_duration_seconds_bucket", STORE, f'operation="{operation}"')),
                "{{le}}",
            ),
        )
        for operation, words in OPERATIONS.items()
    ]
    percentiles = graph(
        "99th percentile by operation",
        "Of the operations that were answered, on all stores that are chosen.",
        Query(quantile(0.99, "soak_operation_duration_seconds", "operation", STORE), "{{operation}}"),
        unit="s",
    )
    of_run = graph(
        "99th percentile of the run, in faults and out of them",
        "What thresholds are held against: all operations of participants since the run began.",
        *(
            Query(
                series("soak_run_latency_seconds", STORE, 'percentile="99"', f'in_fault="{in_fault}"'),
                f"{{{{operation}}}}{words}",
            )
            for in_fault, words in (("false", ""), ("true", ", in fault"))
        ),
        unit="s",
    )
    return [Band(8, heats[:4]), Band(8, [*heats[4:], percentiles, of_run])]


def _outcomes() -> list[Band]:
    unknown = total("store", rate("soak_attempts_total", STORE, 'outcome="unknown"'))
    every = total("store", rate("soak_attempts_total", STORE))
    return [
        Band(
            7,
            [
                graph(
                    "Operations",
                    "What is answered per second, by operation.",
                    Query(
                        total("store, operation", rate("soak_operation_duration_seconds_count", STORE)),
                        "{{store}} {{operation}}",
                    ),
                    unit="cps",
                ),
                graph(
                    "Errors",
                    "Operations without an answer: unavailability, not loss.",
                    Query(
                        total("store, operation", rate("soak_operation_errors_total", STORE)),
                        "{{store}} {{operation}}",
                    ),
                    unit="cps",
                ),
                graph(
                    "Share of unknown outcomes",
                    "Appends of which nobody knows whether they were applied.",
                    Query(f"{unknown} / {every}", "{{store}}"),
                    unit="percentunit",
                ),
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Unknown writes",
                    "Those that were seen later, and those that nobody has seen.",
                    Query(total("store", increase("soak_surfaced_messages_total", STORE)), "{{store}} seen later"),
                    Query(total("store", series("soak_indeterminate_messages", STORE)), "{{store}} never seen"),
                    unit="short",
                ),
                graph(
                    "Forgetting",
                    "Conversations that were forgotten, by outcome.",
                    Query(total("store, outcome", rate("soak_forgets_total", STORE)), "{{store}} {{outcome}}"),
                    unit="cps",
                ),
                graph(
                    "Sessions",
                    "Conversations begun, and let go after their last recall.",
                    Query(total("store", rate("soak_sessions_opened_total", STORE)), "{{store}} begun"),
                    Query(total("store", rate("soak_sessions_retired_total", STORE)), "{{store}} let go"),
                    unit="cps",
                ),
            ],
        ),
    ]


def _reads() -> list[Band]:
    hits = total("store", increase("soak_searches_total", STORE, 'result="hit"'))
    expected = total("store", increase("soak_searches_total", STORE, 'result!="not_expected"'))
    return [
        Band(
            8,
            [
                heat(
                    "How far stale reads were behind",
                    "Reads that lacked an acknowledged message which a later read had, by how late it came. Empty: no "
                    "read was stale.",
                    Query(total("le", increase("soak_stale_lag_seconds_bucket", STORE)), "{{le}}"),
                ),
                graph(
                    "Stale reads",
                    "How many there were.",
                    Query(total("store", increase("soak_stale_lag_seconds_count", STORE)), "{{store}}"),
                    unit="short",
                    bars=True,
                ),
                graph(
                    "Sessions read back at growing ages",
                    "Closed conversations that were read again a minute, an hour, a day and three days after.",
                    Query(total("store, age", increase("soak_recalls_total", STORE)), "{{store}} after {{age}}"),
                    unit="short",
                    bars=True,
                ),
                graph(
                    "Oldest session read back",
                    "Greatest age, since its end, at which a conversation was still there.",
                    Query(f"max by (store) ({series('soak_oldest_recall_seconds', STORE)})", "{{store}}"),
                    unit="s",
                ),
            ],
        ),
        Band(
            8,
            [
                graph(
                    "Searches",
                    "Messages asked for by their own words, in stores that can be searched: among the nearest, shown "
                    "only by a wide search or a later one, or not at all.",
                    Query(total("store, result", increase("soak_searches_total", STORE)), "{{store}} {{result}}"),
                    unit="short",
                    bars=True,
                ),
                graph(
                    "Recall of searches",
                    "Of the messages that had to be found, the share that was among the nearest. Empty: no store can "
                    "be searched.",
                    Query(f"{hits} / {expected}", "{{store}}"),
                    unit="percentunit",
                ),
            ],
        ),
    ]


def _servers() -> list[Band]:
    return [
        Band(
            7,
            [
                timeline(
                    "Answers",
                    "Whether each server answers when it is asked. While it does not, its other numbers are absent.",
                    Query(f"min by (server) ({series('soak_server_answers', SERVER)})", "{{server}}"),
                    words={0: ("silent", RED), 1: ("answers", GREEN)},
                ),
                graph(
                    "Connections",
                    "Of all clients, with the most that a server takes.",
                    Query(f"max by (server) ({series('soak_server_connections', SERVER)})", "{{server}}"),
                    Query(
                        f"max by (server) ({series('soak_server_connections_max', SERVER)})",
                        "{{server}} at most",
                        dashed=True,
                    ),
                    unit="short",
                ),
                graph(
                    "Up for",
                    "A saw-tooth shows restarts.",
                    Query(f"max by (server) ({series('soak_server_uptime_seconds', SERVER)})", "{{server}}"),
                    unit="s",
                ),
            ],
        )
    ]


def _redis() -> list[Band]:
    def most(metric: str) -> str:
        return f"max by (server) ({series(metric, SERVER)})"

    return [
        Band(
            7,
            [
                graph(
                    "Memory",
                    "In use, and the limit at which the server evicts or refuses; a limit of 0 is none.",
                    Query(most("soak_server_memory_used_bytes"), "{{server}} used"),
                    Query(most("soak_server_memory_max_bytes"), "{{server}} limit", dashed=True),
                    unit="bytes",
                ),
                graph(
                    "Keys evicted and expired",
                    "Evicted keys are acknowledged messages that are thrown away.",
                    Query(total("server", increase("soak_server_evicted_keys_total", SERVER)), "{{server}} evicted"),
                    Query(total("server", increase("soak_server_expired_keys_total", SERVER)), "{{server}} expired"),
                    unit="short",
                ),
                graph(
                    "Keys",
                    "In the database that is used.",
                    Query(most("soak_server_keys"), "{{server}}"),
                    unit="short",
                ),
                graph(
                    "Connections refused",
                    "Beyond the server's limit.",
                    Query(total("server", increase("soak_server_rejected_connections_total", SERVER)), "{{server}}"),
                    unit="short",
                    bars=True,
                ),
            ],
        ),
        Band(
            7,
            [
                timeline(
                    "Persistence",
                    "Whether log and snapshots are on, and whether the last write of each went well.",
                    Query(f"2 + {most('soak_server_aof_enabled')}", "{{server}} log"),
                    Query(most("soak_server_aof_last_write_ok"), "{{server}} last write of the log"),
                    Query(f"2 + {most('soak_server_rdb_enabled')}", "{{server}} snapshots"),
                    Query(most("soak_server_rdb_last_save_ok"), "{{server}} last snapshot"),
                    words={0: ("failed", RED), 1: ("well", GREEN), 2: ("off", ORANGE), 3: ("on", GREEN)},
                ),
                graph(
                    "Log not yet on disk",
                    "Acknowledged bytes that are still in the server's own memory: a crash takes them.",
                    Query(most("soak_server_aof_buffer_bytes"), "{{server}}"),
                    unit="bytes",
                ),
                graph(
                    "Syncs that wait",
                    "Syncs that are pending, and writes that had to wait for one: the disk is too slow for "
                    "appendfsync everysec.",
                    Query(most("soak_server_aof_pending_fsyncs"), "{{server}} pending"),
                    Query(
                        total("server", increase("soak_server_aof_delayed_fsyncs_total", SERVER)), "{{server}} delayed"
                    ),
                    unit="short",
                ),
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Age of the last snapshot",
                    "Without a log, a crash takes everything since.",
                    Query(most("soak_server_rdb_last_save_age_seconds"), "{{server}}"),
                    unit="s",
                ),
                graph(
                    "Changes since the last snapshot",
                    "Writes that no snapshot holds.",
                    Query(most("soak_server_rdb_unsaved_changes"), "{{server}}"),
                    unit="short",
                ),
                graph(
                    "Size of the log",
                    "It shrinks when it is rewritten.",
                    Query(most("soak_server_aof_size_bytes"), "{{server}}"),
                    unit="bytes",
                ),
            ],
        ),
    ]


def _postgres() -> list[Band]:
    position = "soak_server_wal_bytes_total"
    primary, replica = series(position, 'server="postgres"'), series(position, 'server="postgres-replica"')
    written, replayed = f"max by (job, instance) ({primary})", f"max by (job, instance) ({replica})"
    return [
        Band(
            7,
            [
                graph(
                    "Write-ahead log",
                    "Bytes per second that the primary writes, and that a replica replays.",
                    Query(total("server", rate(position, SERVER)), "{{server}}"),
                    unit="Bps",
                ),
                graph(
                    "Replication lag in bytes",
                    "As each server tells it, and as the difference of the two positions, which were asked for up to "
                    "two seconds apart. A replica that is cut off shows only in the difference.",
                    Query(f"max by (server) ({series('soak_server_replication_lag_bytes', SERVER)})", "{{server}}"),
                    Query(f"clamp_min({written} - {replayed}, 0)", "difference of the positions"),
                    unit="bytes",
                ),
                graph(
                    "Replication lag in time",
                    "Age of the last transaction that the replica applied; 0 if it has applied all that it received.",
                    Query(f"max by (server) ({series('soak_server_replication_lag_seconds', SERVER)})", "{{server}}"),
                    unit="s",
                ),
                graph(
                    "Replicas",
                    "How many are connected to each server.",
                    Query(f"max by (server) ({series('soak_server_replicas', SERVER)})", "{{server}}"),
                    unit="short",
                ),
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Transactions",
                    "Committed and rolled back, in the database that is used.",
                    Query(total("server", rate("soak_server_commits_total", SERVER)), "{{server}} committed"),
                    Query(total("server", rate("soak_server_rollbacks_total", SERVER)), "{{server}} rolled back"),
                    unit="cps",
                ),
                graph(
                    "Deadlocks and checkpoints",
                    "Checkpoints that come more often than they are timed mean that the log fills too fast.",
                    Query(total("server", increase("soak_server_deadlocks_total", SERVER)), "{{server}} deadlocks"),
                    Query(total("server", increase("soak_server_checkpoints_total", SERVER)), "{{server}} checkpoints"),
                    unit="short",
                ),
                graph(
                    "Size of the database",
                    "Asked for once a minute.",
                    Query(f"max by (server) ({series('soak_server_database_size_bytes', SERVER)})", "{{server}}"),
                    unit="bytes",
                ),
            ],
        ),
    ]


def _promises() -> list[Band]:
    drifts = total("server", increase("soak_configuration_drifts_total", SERVER, over="$__range"))
    clauses = ("obtained", "durability", "order", "reads", "duplicates", "retention")
    info = f"max by (store, {', '.join(clauses)}) ({series('soak_contract_info', STORE)})"
    return [
        Band(
            7,
            [
                rows(
                    "Contracts",
                    "What each store is held to, and how that was obtained.",
                    Column("is held to it", info, "none"),
                    labels={"store": "store", **{clause: clause for clause in clauses}},
                ),
                rows(
                    "Settings that are not what they were",
                    "Settings of the servers, with 1 while one differs from what it was when the run began.",
                    Column(
                        "differs",
                        f"max by (server, setting) ({series('soak_configuration_drift', SERVER)})",
                        "none",
                        steps=[(1, RED)],
                    ),
                    labels={"server": "server", "setting": "setting"},
                ),
                graph(
                    "Promises that cannot be kept",
                    "1 while a server, as it is configured now, cannot keep a clause of the contract; and the changes "
                    "of settings in the time that is shown.",
                    Query(f"max by (store, clause) ({series('soak_contract_unmet', STORE)})", "{{store}} {{clause}}"),
                    Query(drifts, "{{server}} settings changed"),
                    unit="short",
                ),
            ],
            [12, 6, 6],
        )
    ]
