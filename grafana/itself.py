"""Soak itself over weeks: what grows, what falls behind, and what was restarted."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.frame import dashboard
from grafana.layout import Band, Section
from grafana.panels import GREEN, ORANGE, RED, Column, Query, graph, rows, tile
from grafana.queries import increase, or_no_data, rate, series, total

DRIFT_WINDOW = "6h"
"""Long enough that the beginning of a run and the sawtooth of a garbage collector do not count as growth."""
DAY_SECONDS = 86_400
WEEK_SECONDS = 7 * DAY_SECONDS

_MEMORY = "soak_process_resident_memory_bytes"
_FREE = "soak_data_folder_free_bytes"


def make() -> Dashboard:
    return dashboard(
        uid="soak-itself",
        title="soak / Itself",
        description="What soak takes of the machine and whether it keeps up, over long times.",
        choices=[],
        since="now-7d",
        sections=[
            Section("Now", [_tiles()]),
            Section("What grows", _growth()),
            Section("Keeping up", _keeping_up()),
            Section("Processes", _processes()),
        ],
    )


def _growth_per_day(metric: str, by: str) -> str:
    """Return the growth over the last hours, as if it went on for a day."""
    return f"{DAY_SECONDS} * sum by ({by}) (deriv({series(metric)}[{DRIFT_WINDOW}]))"


def _tiles() -> Band:
    week = f"min by (instance) (predict_linear({series(_FREE)}[{DRIFT_WINDOW}], {WEEK_SECONDS}))"
    memory = _growth_per_day(_MEMORY, "instance")
    lag = f"max by (instance) ({series('soak_ledger_lag_seconds')})"
    gaps = total("instance", series("soak_ledger_missing_batches_total"))
    written = total("instance", series("soak_evidence_write_failures_total"))
    restarts = total("instance", series("soak_child_restarts_total"))
    return Band(
        4,
        [
            tile(
                "Memory, per day",
                f"Growth of all processes together over the last {DRIFT_WINDOW}, as if it went on for a day. In the "
                "first hours of a run it is high. Below zero it shrinks, which is well.",
                Query(or_no_data(f"clamp_min({memory}, 0)"), "{{instance}}"),
                unit="bytes",
                steps=[(0, GREEN), (100e6, ORANGE), (1e9, RED)],
            ),
            tile(
                "Room on disk in a week",
                "What would be free on the data folder's disk if it went on like this.",
                Query(or_no_data(f"clamp_min({week}, 0)"), "{{instance}}"),
                unit="bytes",
                steps=[(0, RED), (1e9, ORANGE), (5e9, GREEN)],
            ),
            tile(
                "Behind the ledger",
                "How far the verifier is behind what participants have written down.",
                Query(or_no_data(lag), "{{instance}}"),
                unit="s",
                steps=[(0, GREEN), (5, ORANGE), (30, RED)],
            ),
            tile(
                "Gaps in the ledger",
                "Batches that are lost or damaged since the run began: of those messages nothing can be said.",
                Query(or_no_data(gaps), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, RED)],
            ),
            tile(
                "Evidence not written",
                "Violations whose evidence could not be written. They count all the same.",
                Query(or_no_data(written), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, RED)],
            ),
            tile(
                "Restarts of children",
                "How often load or verifier died and were started again by this daemon.",
                Query(or_no_data(restarts), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, ORANGE), (10, RED)],
            ),
        ],
    )


def _growth() -> list[Band]:
    by = "process"
    free = f"min by (instance) ({series(_FREE)})"
    falling = f"min by (instance) (deriv({series(_FREE)}[{DRIFT_WINDOW}]))"
    return [
        Band(
            8,
            [
                graph(
                    "Memory",
                    "Resident memory of each process, with the processes it started.",
                    Query(f"sum by ({by}) ({series(_MEMORY)})", "{{process}}"),
                    unit="bytes",
                ),
                graph(
                    "Growth of memory per day",
                    f"Over the last {DRIFT_WINDOW} at each moment. What stays above zero for days is a leak.",
                    Query(_growth_per_day(_MEMORY, by), "{{process}}"),
                    unit="bytes",
                    zero_based=False,
                ),
                graph(
                    "Open files",
                    "Files and sockets. What only ever rises is a leak.",
                    Query(f"sum by ({by}) ({series('soak_process_open_files')})", "{{process}}"),
                    Query(f"max by (job) ({series('soak_verifier_process_max_fds')})", "verifier at most", dashed=True),
                    unit="short",
                ),
            ],
        ),
        Band(
            8,
            [
                graph(
                    "State of the verifier",
                    "Size of its checkpoint. It follows the live sessions, not the messages.",
                    Query(f"sum by (job) ({series('soak_verifier_state_bytes')})", "state"),
                    unit="bytes",
                ),
                graph(
                    "State per live session",
                    "It should be flat, however long the run.",
                    Query(
                        f"sum by (job) ({series('soak_verifier_state_bytes')}) / "
                        f"(sum by (job) ({series('soak_sessions_live')}) > 0)",
                        "per session",
                    ),
                    unit="bytes",
                ),
                graph(
                    "Evidence",
                    "Files of evidence, and their size.",
                    Query(f"sum by (job) ({series('soak_evidence_bytes')})", "size"),
                    unit="bytes",
                ),
                graph(
                    "Files of evidence",
                    "One for all that one read of a session showed to be wrong in one way.",
                    Query(f"sum by (job) ({series('soak_evidence_files')})", "files"),
                    unit="short",
                ),
            ],
        ),
        Band(
            8,
            [
                graph(
                    "Data folder",
                    "What each part takes on disk.",
                    Query(f"sum by (part) ({series('soak_data_folder_bytes')})", "{{part}}"),
                    unit="bytes",
                    stacked=True,
                ),
                graph(
                    "Room on disk",
                    "Free on the data folder's disk, and what would be free in a week.",
                    Query(free, "free"),
                    Query(
                        f"clamp_min(min by (instance) (predict_linear({series(_FREE)}[{DRIFT_WINDOW}], "
                        f"{WEEK_SECONDS})), 0)",
                        "in a week",
                        dashed=True,
                    ),
                    unit="bytes",
                ),
                graph(
                    "Full in",
                    "Time until the disk is full at the pace of the last hours; a year at most is shown.",
                    Query(f"clamp_max({free} / clamp_min(-1 * {falling}, 1), {365 * DAY_SECONDS})", "full in"),
                    unit="s",
                    steps=[(3 * DAY_SECONDS, RED)],
                ),
            ],
        ),
    ]


def _keeping_up() -> list[Band]:
    return [
        Band(
            8,
            [
                graph(
                    "Behind the ledger",
                    "How far the verifier is behind, and the age of the oldest acknowledgement it has not verified.",
                    Query(f"max by (job) ({series('soak_ledger_lag_seconds')})", "ledger"),
                    Query(f"max by (job) ({series('soak_oldest_unverified_seconds')})", "oldest unverified"),
                    unit="s",
                ),
                graph(
                    "Delay of the event loops",
                    "How late they run. The daemon tells its worst of fifteen seconds, the verifier its last.",
                    Query(f"max by (job) ({series('soak_verifier_loop_delay_seconds')})", "verifier"),
                    Query(f"max by (job) ({series('soak_daemon_loop_delay_seconds')})", "daemon"),
                    unit="s",
                ),
                graph(
                    "Messages read back",
                    "What the verifier reads per second, by store.",
                    Query(total("store", rate("soak_read_messages_total")), "{{store}}"),
                    unit="cps",
                ),
            ],
        ),
        Band(
            8,
            [
                graph(
                    "Batches of the ledger",
                    "Taken in per second.",
                    Query(total("job", rate("soak_ledger_batches_total")), "batches"),
                    unit="cps",
                ),
                graph(
                    "Trouble with the ledger",
                    "Batches that were sent twice do no harm. Those that are missing, and records nothing can be said "
                    "about, make the run inconclusive.",
                    Query(total("job", increase("soak_ledger_repeated_batches_total")), "repeated"),
                    Query(total("job", increase("soak_ledger_missing_batches_total")), "missing"),
                    Query(total("job", increase("soak_unverifiable_records_total")), "unverifiable records"),
                    Query(total("job", increase("soak_suppressed_observations_total")), "observations cut short"),
                    unit="short",
                ),
                graph(
                    "Acknowledged and not read yet",
                    "Past verifier.unread_max the load is held back until a fifth of them is read.",
                    Query(total("job", series("soak_unread_messages")), "messages"),
                    Query(total("job", series("soak_load_held_back")), "load is held back (1: yes)"),
                    unit="short",
                ),
                graph(
                    "Sessions and suspicions",
                    "What the verifier has in its care.",
                    Query(total("job", series("soak_sessions_live")), "live sessions"),
                    Query(total("job", series("soak_suspicions_open")), "suspicions"),
                    unit="short",
                ),
            ],
        ),
    ]


def _processes() -> list[Band]:
    named = f"* on (job, instance) group_left (run) {series('soak_run_info')}"
    return [
        Band(
            8,
            [
                graph(
                    "Processor",
                    "Cores that each takes, with the processes it started.",
                    Query(total("process", rate("soak_process_cpu_seconds_total")), "{{process}}"),
                    unit="short",
                ),
                graph(
                    "Processes and threads",
                    "Locust has a process for each of its workers.",
                    Query(f"sum by (process) ({series('soak_processes')})", "{{process}} processes"),
                    Query(f"sum by (process) ({series('soak_process_threads')})", "{{process}} threads"),
                    unit="short",
                ),
                graph(
                    "Restarts",
                    "Children that died and were started again, and times the verifier took up its checkpoint.",
                    Query(total("child", increase("soak_child_restarts_total")), "{{child}}"),
                    Query(total("job", increase("soak_verifier_restarts_total")), "verifier resumed"),
                    unit="short",
                    bars=True,
                ),
            ],
        ),
        Band(
            6,
            [
                rows(
                    "Runs",
                    "What runs, and since when.",
                    Column("daemon up for", f"{series('soak_daemon_uptime_seconds')} {named}", "s"),
                    Column("age of the run", f"(time() - {series('soak_run_start_time_seconds')}) {named}", "s"),
                    labels={"instance": "instance", "run": "run"},
                ),
                rows(
                    "Builds",
                    "The version of soak and of Python.",
                    Column("is running", f"max by (instance, version, python) ({series('soak_build_info')})", "none"),
                    labels={"instance": "instance", "version": "soak", "python": "Python"},
                ),
            ],
        ),
    ]
