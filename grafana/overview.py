"""Is it clean? One look, and nothing that is absent looks green."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.frame import dashboard
from grafana.layout import Band, Section
from grafana.panels import BLUE, GREEN, ORANGE, RED, Column, Query, bars, graph, rows, tile, timeline
from grafana.queries import STORE, increase, or_no_data, rate, series, total

UNVERIFIED_SECONDS_MAX = 120
"""An acknowledgement that nobody has verified for longer means that nobody is checking."""
CANARY_SECONDS = (180, 600)
PHASES = {"starting": ORANGE, "running": GREEN, "draining": BLUE, "done": BLUE}
ABSENT_IS_RED = "Red where nothing is known."

_VIOLATIONS = total("instance", series("soak_consistency_violations_total"))
_OLDEST = f"max by (instance) ({series('soak_oldest_unverified_seconds')})"
_MISSED = total("instance", increase("soak_canaries_total", 'result="missed"', over="$__range"))
_READY = f"min by (instance) ({series('soak_ready')})"
_STATE = (
    f"4 * ({_VIOLATIONS} > bool 0) + 2 * clamp_max(({_OLDEST} > bool {UNVERIFIED_SECONDS_MAX}) "
    f"+ ({_MISSED} > bool 0), 1) + ({_READY} < bool 1)"
)
_STATES = {
    0: ("clean", GREEN),
    1: ("not ready", ORANGE),
    2: ("not checking", RED),
    3: ("not checking", RED),
    **dict.fromkeys(range(4, 8), ("violation", RED)),
}


def make() -> Dashboard:
    return dashboard(
        uid="soak-overview",
        title="soak / Overview",
        description="Whether the memory forgets: violations, and whether anybody is looking.",
        choices=["store"],
        since="now-3h",
        sections=[
            Section("Is it clean?", [_tiles(), _run()]),
            Section("Violations", [_found(), _standing()]),
            Section("Is anybody looking?", [_looking(), _alarm()]),
            Section("Alerts and parts", [_parts()]),
        ],
    )


def _tiles() -> Band:
    verified = total("instance", series("soak_verified_messages_total"))
    released = total("instance", series("soak_released_messages_total"))
    acknowledged = total("instance", series("soak_acknowledged_messages_total"))
    rang = f"min by (instance) ({series('soak_canary_last_detected_timestamp_seconds')})"
    swept = f"min by (instance) ({series('soak_last_sweep_timestamp_seconds')})"
    soon, late = CANARY_SECONDS
    return Band(
        5,
        [
            tile(
                "Is it clean?",
                "Clean: no violation was found, acknowledgements are verified within two minutes, no test of the alarm "
                f"was missed, and servers, ledger, verifier and load are up. {ABSENT_IS_RED}",
                Query(or_no_data(_STATE), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, ORANGE), (2, RED)],
                words=_STATES,
            ),
            tile(
                "Violations",
                f"Violations of the contract since the run began, each counted once. {ABSENT_IS_RED}",
                Query(or_no_data(_VIOLATIONS), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, RED)],
            ),
            tile(
                "Still open",
                f"Violations that still stand: what was missing has not come back. {ABSENT_IS_RED}",
                Query(or_no_data(total("instance", series("soak_open_violations"))), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, RED)],
            ),
            tile(
                "Verified",
                "Share of the acknowledged messages that were read back as they were written, or were forgotten on "
                f"purpose before. The newest wait for a few seconds. {ABSENT_IS_RED}",
                Query(or_no_data(f"({verified} + {released}) / {acknowledged}"), "{{instance}}"),
                unit="percentunit",
                steps=[(0, RED), (0.5, ORANGE), (0.9, GREEN)],
            ),
            tile(
                "Oldest unverified",
                f"Age of the oldest acknowledgement that nobody has verified yet. {ABSENT_IS_RED}",
                Query(or_no_data(_OLDEST), "{{instance}}"),
                unit="s",
                steps=[(0, GREEN), (UNVERIFIED_SECONDS_MAX / 2, ORANGE), (UNVERIFIED_SECONDS_MAX, RED)],
            ),
            tile(
                "Last read back",
                f"Time since a session was last read back, of the store that waits longest. {ABSENT_IS_RED}",
                Query(or_no_data(f"clamp_min(time() - {swept}, 0)"), "{{instance}}"),
                unit="s",
                steps=[(0, GREEN), (30, ORANGE), (60, RED)],
            ),
            tile(
                "Alarm last rang",
                "Time since a session that was spoiled on purpose was reported, of the store where that is longest "
                f"ago. Decades: never, or verifier.canary is off. {ABSENT_IS_RED}",
                Query(or_no_data(f"clamp_min(time() - {rang}, 0)"), "{{instance}}"),
                unit="s",
                steps=[(0, GREEN), (soon, ORANGE), (late, RED)],
            ),
        ],
        [6, 3, 3, 3, 3, 3, 3],
    )


def _run() -> Band:
    numbers = {f'phase="{phase}"': number for number, phase in enumerate(PHASES)}
    phases = " + ".join(f"{number} * {total('instance', series('soak_phase', one))}" for one, number in numbers.items())
    named = f"* on (job, instance) group_left (run, stores, seed) {series('soak_run_info')}"
    return Band(
        4,
        [
            tile(
                "Phase",
                f"What the run is doing. {ABSENT_IS_RED}",
                Query(or_no_data(phases), "{{instance}}"),
                unit="none",
                steps=[(0, ORANGE), (1, GREEN), (2, BLUE)],
                words=dict(enumerate(PHASES.items())),
            ),
            tile(
                "Faults under way",
                f"Servers that are broken just now, on purpose or not. {ABSENT_IS_RED}",
                Query(or_no_data(f"max by (instance) ({series('soak_faults_active')})"), "{{instance}}"),
                unit="none",
                steps=[(0, GREEN), (1, ORANGE)],
            ),
            rows(
                "Runs",
                "The runs that are going on: their stores, their seed, and how long ago they and their daemons began.",
                Column("age of the run", f"(time() - {series('soak_run_start_time_seconds')}) {named}", "s"),
                Column("daemon up for", f"{series('soak_daemon_uptime_seconds')} {named}", "s"),
                labels={"instance": "instance", "run": "run", "stores": "stores", "seed": "seed"},
            ),
        ],
        [4, 4, 16],
    )


def _found() -> Band:
    return Band(
        9,
        [
            bars(
                "Violations by kind",
                "All violations since the run began. What each kind means is in the README under Verdicts.",
                Query(total("kind", series("soak_consistency_violations_total", STORE)), "{{kind}}"),
                unit="none",
                steps=[(0, GREEN), (1, RED)],
            ),
            graph(
                "New violations",
                "Violations as they were found. Empty is good, as long as the tiles above are green.",
                Query(
                    f"{total('store, kind', increase('soak_consistency_violations_total', STORE))} > 0",
                    "{{kind}} in {{store}}",
                ),
                unit="short",
                stacked=True,
                bars=True,
            ),
        ],
        [8, 16],
    )


def _standing() -> Band:
    return Band(
        8,
        [
            graph(
                "Open and healed",
                "Violations that still stand, and the pace at which others are over, such as a stale read that "
                "another read puts right.",
                Query(total("store", series("soak_open_violations", STORE)), "{{store}} open"),
                Query(total("store", increase("soak_healed_violations_total", STORE)), "{{store}} healed"),
                unit="short",
            ),
            graph(
                "Tolerated losses",
                "Messages that were lost inside the contract: a tail before a fault that the store, so configured, "
                "does not promise to keep.",
                Query(total("store", increase("soak_tolerated_losses_total", STORE)), "{{store}}"),
                unit="short",
                bars=True,
            ),
            graph(
                "Suspicions",
                "Sessions with something missing that is read once more before it counts, and reads of participants "
                "that did not look right.",
                Query(total("store", series("soak_suspicions_open", STORE)), "{{store}} suspicious"),
                Query(total("store", increase("soak_observations_total", STORE)), "{{store}} odd reads"),
                unit="short",
            ),
        ],
    )


def _looking() -> Band:
    return Band(
        8,
        [
            graph(
                "Acknowledged and verified",
                "Messages per second that stores acknowledge, and that the verifier has read back as they were "
                "written. The two lines belong together.",
                Query(total("store", rate("soak_acknowledged_messages_total", STORE)), "{{store}} acknowledged"),
                Query(total("store", rate("soak_verified_messages_total", STORE)), "{{store}} verified"),
                unit="cps",
            ),
            graph(
                "Oldest unverified acknowledgement",
                "If this rises, nobody is checking: the verifier is behind, or a store does not answer its reads.",
                Query(f"max by (store) ({series('soak_oldest_unverified_seconds', STORE)})", "{{store}}"),
                unit="s",
                steps=[(UNVERIFIED_SECONDS_MAX, RED)],
            ),
        ],
    )


def _alarm() -> Band:
    return Band(
        8,
        [
            graph(
                "Tests of the alarm",
                "Sessions that the verifier spoiled on purpose, by whether that was reported. One that is missed "
                "makes the run inconclusive.",
                Query(total("store, result", increase("soak_canaries_total", STORE)), "{{store}} {{result}}"),
                unit="short",
                bars=True,
            ),
            graph(
                "Time since a session was read back",
                "Coverage: each store is read all the time, and every live session as a whole within "
                "verifier.coverage.",
                Query(f"time() - max by (store) ({series('soak_last_sweep_timestamp_seconds', STORE)})", "{{store}}"),
                unit="s",
            ),
            graph(
                "Sessions under watch",
                "Live sessions, and closed ones that are recalled at growing ages before they are let go.",
                Query(total("store", series("soak_sessions_live", STORE)), "{{store}}"),
                unit="short",
            ),
        ],
    )


def _parts() -> Band:
    return Band(
        9,
        [
            rows(
                "Alerts",
                "Alerts of this Prometheus that are pending or firing; the runbook says what to do about each. The "
                "watchdog fires all the time and is left out.",
                Column("since it rings", 'ALERTS{alertname!="Watchdog"}', "none"),
                labels={
                    "alertname": "alert",
                    "alertstate": "state",
                    "severity": "severity",
                    "instance": "instance",
                    "store": "store",
                    "server": "server",
                },
                empty="none",
            ),
            timeline(
                "Parts",
                "Whether the daemon's children and the servers it started run. A fault that ends a server shows here.",
                Query(f"min by (child) ({series('soak_child_up')})", "{{child}}"),
                Query(f"min by (server) ({series('soak_server_up')})", "{{server}}"),
                Query(f"min by (job) ({series('soak_ledger_up')})", "ledger, as the verifier sees it"),
                words={0: ("down", RED), 1: ("up", GREEN)},
            ),
        ],
    )
