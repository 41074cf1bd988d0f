"""What all dashboards have in common: what can be chosen, what is marked, and where the links lead."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.layout import Section, placed
from grafana.panels import BLUE, ORANGE, RED, SOURCE
from grafana.queries import CHOSEN, faults_seen, increase, series, total

SCHEMA_VERSION = 39
"""That of Grafana 11; later ones read it."""
TAG = "soak"
STATUS_PAGE = "http://127.0.0.1:9464"
RUNBOOK = "${status_page:raw}/runbook"
"""The daemon has it, and sends on to yours where http.runbook names one."""

_CHOICES = {
    "job": ("Job", "The scrape job of soak.", "label_values(soak_build_info, job)"),
    "run": ("Run", "The run, by its name.", 'label_values(soak_run_info{job=~"$job"}, run)'),
    "instance": (
        "Instance",
        "The daemon, by the address it is scraped at.",
        'label_values(soak_run_info{job=~"$job", run=~"$run"}, instance)',
    ),
    "store": (
        "Store",
        "The memory under test.",
        f"label_values(soak_acknowledged_messages_total{{{CHOSEN}}}, store)",
    ),
    "server": (
        "Server",
        "The server under test.",
        f"label_values(soak_server_answers{{{CHOSEN}}}, server)",
    ),
}


def dashboard(
    *, uid: str, title: str, description: str, choices: Sequence[str], sections: Sequence[Section], since: str
) -> Dashboard:
    """Make a dashboard of these sections."""
    builder = builders.Dashboard(title).uid(uid).description(description).tags([TAG]).readonly()
    builder = builder.time(since, "now").timezone("browser").refresh("30s" if since in _SHORT else "5m")
    builder = builder.tooltip(DashboardCursorSync.CROSSHAIR).variables([_source()])
    for name in ("job", "run", "instance", *choices):
        builder = builder.with_variable(_choice(name))
    builder = builder.with_variable(_address("status_page", "Status page", "Where the daemon answers.", STATUS_PAGE))
    for annotation in _annotations():
        builder = builder.annotation(annotation)
    found = builder.links([*_links()]).build()
    for one in (*(found.links or ()), *(found.annotations.list_val or ())):
        one.placement = None  # in sight, and not in a menu
    found.schema_version = SCHEMA_VERSION
    found.panels = placed(sections)
    return found


_SHORT = ("now-1h", "now-3h", "now-6h")


def _source() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _choice(name: str) -> builders.QueryVariable:
    label, description, query = _CHOICES[name]
    variable = builders.QueryVariable(name).label(label).description(description).datasource(SOURCE)
    variable = variable.query({"query": query, "refId": name, "qryType": 1}).definition(query)
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    everything = VariableOption(selected=True, text=["All"], value=["$__all"])
    return variable.multi(True).include_all(True).all_value(".+").current(everything)


def _address(name: str, label: str, description: str, value: str) -> builders.TextBoxVariable:
    chosen = VariableOption(selected=True, text=value, value=value)
    variable = builders.TextBoxVariable(name).label(label).description(description).default_value(value)
    return variable.current(chosen).options([chosen]).hide(VariableHide.DONT_HIDE)


def _annotations() -> list[builders.AnnotationQuery]:
    violations = f"{total('store, kind', increase('soak_consistency_violations_total'))} > 0"
    restarts = f"changes({series('soak_verifier_process_start_time_seconds')}[$__rate_interval]) > 0"
    return [
        _annotation("Faults", ORANGE, f"({faults_seen()}) > 0", "{{kind}} of {{server}}", "server,kind"),
        _annotation("Violations", RED, violations, "{{kind}} in {{store}}", "store,kind"),
        _annotation("Restarts of the verifier", BLUE, restarts, "the verifier was started", "instance"),
    ]


def _annotation(name: str, color: str, expr: str, title: str, tags: str) -> builders.AnnotationQuery:
    query = builders.AnnotationQuery().name(name).datasource(SOURCE).enable(True).hide(False).icon_color(color)
    return query.expr(expr).title_format(title).text_format("").tag_keys(tags).step("15s").use_value_for_time(False)


def _links() -> list[builders.DashboardLink]:
    others = builders.DashboardLink("soak").type(DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(False)
    others = others.include_vars(True).keep_time(True).icon("external link").tooltip("the other dashboards of soak")
    return [
        others,
        _link("Status page", "$status_page", "what the daemon says now", "dashboard"),
        _link("Runbook", RUNBOOK, "what to do when an alert rings", "doc"),
    ]


def _link(title: str, url: str, tooltip: str, icon: str) -> builders.DashboardLink:
    link = builders.DashboardLink(title).type(DashboardLinkType.LINK).url(url).tooltip(tooltip).icon(icon)
    return link.target_blank(True)
