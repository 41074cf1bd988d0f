"""What was broken, what it did to clients, and how the stores recovered, all on one axis of time."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.frame import dashboard
from grafana.layout import Band, Section
from grafana.panels import GREEN, ORANGE, RED, Column, Query, graph, heat, rows, timeline
from grafana.queries import (
    SERVER,
    STORE,
    faults_in_range,
    faults_seen,
    increase,
    mean,
    quantile,
    rate,
    series,
    total,
)

RANGE = "$__range"


def make() -> Dashboard:
    return dashboard(
        uid="soak-faults",
        title="soak / Faults and recovery",
        description="Faults, what clients saw of them, and what was lost and for how long, against the contract.",
        choices=["store", "server"],
        since="now-3h",
        sections=[
            Section("Faults, and what clients saw", _during()),
            Section("Recovery point: what was lost", _points()),
            Section("Recovery time: how long it was away", _times()),
            Section("Each kind of fault", [_table()]),
        ],
    )


def _during() -> list[Band]:
    seen = f"({faults_seen(SERVER)}) and on (server, kind) {faults_in_range(SERVER)}"
    return [
        Band(
            7,
            [
                timeline(
                    "Faults",
                    "Each fault that happened in the time that is shown. One that is over before the next scrape is "
                    "drawn as short.",
                    Query(seen, "{{server}} {{kind}}"),
                    words={0: ("none", "transparent"), 1: ("short", ORANGE), 2: ("under way", RED)},
                )
            ],
        ),
        Band(
            4,
            [
                timeline(
                    "Servers",
                    "Whether each server answers the verifier, which asks every two seconds.",
                    Query(f"min by (server) ({series('soak_server_answers', SERVER)})", "{{server}}"),
                    words={0: ("silent", RED), 1: ("answers", GREEN)},
                )
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Appends by outcome",
                    "Failed: it cannot have been applied. Unknown: it may have been, for the answer was lost. Neither "
                    "is a violation.",
                    Query(total("store, outcome", rate("soak_attempts_total", STORE)), "{{store}} {{outcome}}"),
                    unit="cps",
                )
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Latency of appends and reads, 99th percentile",
                    "Of the operations that were answered.",
                    Query(
                        quantile(
                            0.99,
                            "soak_operation_duration_seconds",
                            "store, operation",
                            STORE,
                            'operation=~"append|history"',
                        ),
                        "{{store}} {{operation}}",
                    ),
                    unit="s",
                )
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Errors that clients saw",
                    "Operations without an answer, by operation; sweep is the verifier's own reading.",
                    Query(
                        total("store, operation", rate("soak_operation_errors_total", STORE)),
                        "{{store}} {{operation}}",
                    ),
                    unit="cps",
                )
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Unknown writes",
                    "Writes of which nobody knows whether they were applied: new ones, those that were seen later, "
                    "and those that nobody has seen yet.",
                    Query(total("store", increase("soak_attempts_total", STORE, 'outcome="unknown"')), "{{store}} new"),
                    Query(total("store", increase("soak_surfaced_messages_total", STORE)), "{{store}} seen later"),
                    Query(total("store", series("soak_indeterminate_messages", STORE)), "{{store}} never seen"),
                    unit="short",
                )
            ],
        ),
        Band(
            7,
            [
                graph(
                    "Restarts that no fault explains",
                    "Servers that were found to be another process than before, with no fault of this soak.",
                    Query(total("server", increase("soak_unexpected_restarts_total", SERVER)), "{{server}}"),
                    unit="short",
                ),
                graph(
                    "Late reads of a replica, tolerated",
                    "Messages that a replica showed late from the start of a fault until it had caught up.",
                    Query(total("store", increase("soak_tolerated_late_reads_total", STORE)), "{{store}}"),
                    unit="short",
                ),
            ],
        ),
    ]


def _points() -> list[Band]:
    promised = Query(
        f"max by (store, after) ({series('soak_contract_loss_seconds', STORE)}) < Inf",
        "promised: {{store}} after a {{after}}",
        dashed=True,
    )
    return [
        Band(
            8,
            [
                graph(
                    "Recovery point of each fault",
                    "Age of the oldest acknowledged message that was gone after a fault, as a mean if several fell "
                    "into one interval; 0: nothing was. Dashed: the tail that the contract lets a crash or a power "
                    "cut take. A promise of nothing at all is not drawn.",
                    Query(mean("soak_recovery_point_seconds", "server, kind", SERVER), "{{server}} {{kind}}"),
                    promised,
                    unit="s",
                    points=True,
                ),
                graph(
                    "More lost than promised",
                    "Faults after which more was gone than the contract allows. Each is worth a look at its evidence.",
                    Query(
                        total("server, kind", increase("soak_recovery_point_exceeded_total", SERVER)),
                        "{{server}} {{kind}}",
                    ),
                    unit="short",
                    bars=True,
                ),
                graph(
                    "Tolerated losses",
                    "Messages that were lost inside the contract.",
                    Query(total("store", increase("soak_tolerated_losses_total", STORE)), "{{store}}"),
                    unit="short",
                    bars=True,
                ),
            ],
            [12, 6, 6],
        )
    ]


def _times() -> list[Band]:
    return [
        Band(
            8,
            [
                graph(
                    "Recovery time of each fault",
                    "Time from the beginning of a fault until an operation was answered again, as a mean if several "
                    "fell into one interval; and for how long a store fails though the fault was healed.",
                    Query(
                        mean("soak_recovery_time_seconds", "server, kind, operation", SERVER),
                        "{{server}} {{kind}}, {{operation}}",
                    ),
                    Query(f"max by (store) ({series('soak_recovering_seconds', STORE)})", "{{store}} still fails"),
                    unit="s",
                    points=True,
                ),
                heat(
                    "Recovery times",
                    "Faults by how long it took until reads and writes were answered again.",
                    Query(total("le", increase("soak_recovery_time_seconds_bucket", SERVER)), "{{le}}"),
                ),
                graph(
                    "Restarts of servers",
                    "Starts of servers that soak runs, planned or not.",
                    Query(total("server", increase("soak_server_restarts_total", SERVER)), "{{server}}"),
                    unit="short",
                    bars=True,
                ),
            ],
            [12, 6, 6],
        ),
        Band(
            7,
            [
                graph(
                    "Primaries that were replaced",
                    "How often the group named another primary.",
                    Query(total("server, kind", increase("soak_replacements_total", SERVER)), "{{server}} {{kind}}"),
                    unit="short",
                    bars=True,
                ),
                graph(
                    "Time without a primary, the longest of the run",
                    "From a fault until the group named another primary.",
                    Query(f"max by (server) ({series('soak_replacement_seconds_max', SERVER)})", "{{server}}"),
                    unit="s",
                ),
                graph(
                    "Clients that stayed with a replaced primary",
                    "Connections that went on sending to it, and the longest of the run that one did. What it "
                    "acknowledged meanwhile may be lost.",
                    Query(total("server", increase("soak_stayed_clients_total", SERVER)), "{{server}} connections"),
                    Query(
                        f"max by (server) ({series('soak_stayed_clients_seconds_max', SERVER)})", "{{server}} seconds"
                    ),
                    unit="short",
                ),
            ],
            [8, 8, 8],
        ),
    ]


def _table() -> Band:
    by = "server, kind"
    happened = increase("soak_faults_injected_total", SERVER, over=RANGE)
    failed = increase("soak_fault_failures_total", SERVER, over=RANGE)
    beyond = increase("soak_recovery_point_exceeded_total", SERVER, over=RANGE)
    only = f"and on ({by}) {faults_in_range(SERVER)}"
    worst_point = quantile(1, "soak_recovery_point_seconds", by, SERVER, over=RANGE)
    worst_time = quantile(1, "soak_recovery_time_seconds", by, SERVER, over=RANGE)
    return Band(
        9,
        [
            rows(
                "Faults in the time that is shown",
                "How often each fault happened, could not be injected or healed, and took more than is promised; the "
                "worst recovery point and time, rounded up to a bucket of their histograms.",
                Column("happened", f"round({total(by, happened)}) {only}"),
                Column("failed", f"round({total(by, failed)}) {only}", steps=[(1, RED)]),
                Column("lost more than promised", f"round({total(by, beyond)}) {only}", steps=[(1, RED)]),
                Column("worst recovery point", f"({worst_point}) >= 0", "s"),
                Column("worst recovery time", f"({worst_time}) >= 0", "s"),
                labels={"server": "server", "kind": "fault"},
                empty="no fault",
            ),
            graph(
                "Faults that could not be injected, or not be healed",
                "Each makes the run inconclusive.",
                Query(total(by, increase("soak_fault_failures_total", SERVER)), "{{server}} {{kind}}"),
                unit="short",
                bars=True,
            ),
        ],
        [16, 8],
    )
