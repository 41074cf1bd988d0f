"""Is it clean? One look, and nothing that is absent looks green."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.frame import dashboard
from grafana.layout import Band, Section
from grafana.panels import BLUE, GREEN, ORANGE, RED, Column, Query, bars, graph, rows, tile, timeline
from grafana.queries import STORE, increase, numbered, or_no_data, rate, series, setting, total
from soak.settings import VerifierSettings

USUAL = VerifierSettings()
"""The settings unless somebody changes them: a tile cannot take the bounds of its colours from a metric."""
PHASES = {"starting": ORANGE, "running": GREEN, "draining": BLUE, "done": BLUE}
VERDICTS = {"undecided": BLUE, "pass": GREEN, "violation": RED, "inconclusive": ORANGE, "threshold": ORANGE}
ABSENT_IS_RED = "Red where nothing is known."

ALERTS = (
    '(time() - ALERTS_FOR_STATE{alertname!="Watchdog"}) '
    '* ignoring (alertstate) group_right () ALERTS{alertname!="Watchdog"}'
)

_VIOLATIONS = total("instance", series("soak_consistency_violations_total"))
_OLDEST = f"max by (instance) ({series('soak_oldest_unverified_seconds')})"
_OLDEST_MAX = f"max by (instance) ({setting('verifier.unverified_age_max')})"
_COVERAGE = f"max by (instance) ({series('soak_coverage_age_seconds')})"
_COVERAGE_MAX = f"2 * max by (instance) ({setting('verifier.coverage')})"
_MISSED = total("instance", increase("soak_canaries_total", 'result="missed"', over="$__range"))
_READY = f"min by (instance) ({series('soak_ready')})"
# What a fault of our own holds up does not count, nor for a minute after: everything has to be read again first.
_UNDISTURBED = f"(max by (instance) (max_over_time({series('soak_planned_faults_active')}[1m])) == bool 0)"
_STATE = (
    f"4 * ({_VIOLATIONS} > bool 0) + 2 * clamp_max((({_OLDEST} > bool {_OLDEST_MAX}) "
    f"+ ({_COVERAGE} > bool {_COVERAGE_MAX})) * {_UNDISTURBED} + ({_MISSED} > bool 0), 1) + ({_READY} < bool 1)"
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
            Section("Is anybody looking?", [_looking(), _self_check()]),
            Section("Alerts and parts", [_parts()]),
        ],
    )


def _tiles() -> Band:
    verified = total("instance", series("soak_verified_messages_total"))
    released = total("instance", series("soak_released_messages_total"))
    acknowledged = total("instance", series("soak_acknowledged_messages_total"))
    rang = f"min by (instance) ({series('soak_canary_last_detected_timestamp_seconds')})"
    return Band(
        5,
        [
            tile(
                "Is it clean?",
                "Clean: no violation was found; acknowledgements are verified within verifier.unverified_age_max and "
                "sessions read whole within twice verifier.coverage, unless a planned fault is in the way; no test of "
                f"a planted error was missed; servers, ledger, verifier and load are up. {ABSENT_IS_RED}",
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
                steps=[(0, GREEN), (USUAL.unverified_age_max / 2, ORANGE), (USUAL.unverified_age_max, RED)],
            ),
            tile(
                "Coverage",
                f"Time since the session that waits longest for it was read back as a whole. {ABSENT_IS_RED}",
                Query(or_no_data(_COVERAGE), "{{instance}}"),
                unit="s",
                steps=[(0, GREEN), (1.5 * USUAL.coverage, ORANGE), (2 * USUAL.coverage, RED)],
            ),
            tile(
                "Alarm last rang",
                "Time since a session that was spoiled on purpose was reported, of the store where that is longest "
                f"ago. Decades: never, or verifier.canary is off. {ABSENT_IS_RED}",
                Query(or_no_data(f"clamp_min(time() - {rang}, 0)"), "{{instance}}"),
                unit="s",
                steps=[(0, GREEN), (3 * USUAL.canary, ORANGE), (10 * USUAL.canary, RED)],
            ),
        ],
        [6, 3, 3, 3, 3, 3, 3],
    )


def _run() -> Band:
    phases = numbered("soak_phase", "phase", PHASES)
    verdicts = numbered("soak_verdict", "verdict", VERDICTS)
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
                "Verdict",
                "What is to be said of the run: as long as it runs it is undecided, or there is a violation. "
                f"{ABSENT_IS_RED}",
                Query(or_no_data(verdicts), "{{instance}}"),
                unit="none",
                steps=[(0, BLUE), (1, GREEN), (2, RED), (3, ORANGE)],
                words=dict(enumerate(VERDICTS.items())),
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
        [4, 4, 4, 12],
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
                "Sessions with something missing that is read again before it counts, and reads of participants "
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
                Query(
                    f"min by (name) ({setting('verifier.unverified_age_max')})",
                    "{{name}}: the run is inconclusive beyond",
                    dashed=True,
                ),
                unit="s",
            ),
        ],
    )


def _self_check() -> Band:
    return Band(
        8,
        [
            graph(
                "Self-check (canary)",
                "Sessions that the verifier spoiled on purpose, by whether that was reported. One that is missed "
                "makes the run inconclusive.",
                Query(total("store, result", increase("soak_canaries_total", STORE)), "{{store}} {{result}}"),
                unit="short",
                bars=True,
            ),
            graph(
                "Coverage",
                "Time since that session was read back as a whole which waits longest for it, the time within which "
                "it should be, and the time since any session was read.",
                Query(f"max by (store) ({series('soak_coverage_age_seconds', STORE)})", "{{store}}"),
                Query(f"min by (name) ({setting('verifier.coverage')})", "{{name}}", dashed=True),
                Query(
                    f"clamp_min(time() - max by (store) ({series('soak_last_sweep_timestamp_seconds', STORE)}), 0)",
                    "{{store}}, any session",
                ),
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
                Column("for", ALERTS, "s"),
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
