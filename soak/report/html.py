"""A run as one page of HTML: no script, no network, light or dark, on a screen or on paper."""

from __future__ import annotations

import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from soak.checker.kinds import Kind
from soak.duration import format_latency, format_seconds
from soak.masking import mask
from soak.report.chart import Band, ChartLine, Frame, Mark, draw
from soak.report.headline import further_reasons
from soak.report.run_report import Report
from soak.report.series import Point, Series, series_of
from soak.report.summary import listing_command, self_check_line, store_error_lines, tried_lines, worst_recoveries
from soak.report.text import clock, local_time, visible
from soak.verifier.result import FaultResult, Result

if TYPE_CHECKING:
    from jinja2 import Template

CHART_POINTS_MAX = 480
FAULTS_SHOWN_MAX = 100
RECOVERIES_SHOWN_MAX = 100


class StoreCharts(NamedTuple):
    """The charts of one store."""

    store: str
    rates: Markup
    latencies: Markup
    violations: Markup | None


def render(report: Report) -> str:
    """Return the page."""
    result = report.result
    return template("report.html.j2").render(
        report=report,
        outcome=report.outcome,
        result=result,
        setup=report.outcome.setup,
        reasons=further_reasons(report.outcome),
        errors=store_error_lines(result, report.outcome.reasons) if result is not None else [],
        self_check=self_check_line(result) if result is not None else "",
        tried=tried_lines(report.outcome),
        charts=_charts(report, result) if result is not None else [],
        faults_max=FAULTS_SHOWN_MAX,
        faults=result.faults[-FAULTS_SHOWN_MAX:] if result is not None else [],
        recoveries=worst_recoveries(result.recoveries, RECOVERIES_SHOWN_MAX) if result is not None else [],
        listing=partial(listing_command, data_dir=report.outcome.data_dir),
        sentences={kind.value: kind.sentence for kind in Kind},
    )


@cache
def template(name: str) -> Template:
    """Return a template in which nothing that is put into it is taken for markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  a run needs it at its end, if at all

    environment = Environment(
        loader=PackageLoader("soak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "clock": clock,
        "latency": format_latency,
        "span": format_seconds,
        "after": lambda seconds: "-" if seconds is None else format_seconds(seconds),
        "number": lambda number: f"{number:,}",
        "time": lambda wall_seconds: time.strftime("%H:%M:%S", local_time(wall_seconds)),
    }
    return environment.get_template(name)


def _finalize(value: Any) -> Any:
    # Whatever a store or a setting says: nothing of it is invisible, and no password is shown.
    return visible(mask(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _charts(report: Report, result: Result) -> list[StoreCharts]:
    return [
        _of_store(report, result, store, series_of(report.series[store].points, CHART_POINTS_MAX))
        for store in report.stores
        if store in report.series and len(report.series[store]) > 1
    ]


def _of_store(report: Report, result: Result, store: str, series: Series) -> StoreCharts:
    since, until = series.points[0].since_wall_seconds, series.points[-1].at_wall_seconds
    bands = [
        Band(fault.at_wall_seconds, _end_of(fault, until), f"{fault.kind} of {fault.server}")
        for fault in result.faults
        if fault.server in result.servers.get(store, []) and _end_of(fault, until) >= since
    ]
    marks = [
        Mark(one.finding.first_wall_seconds, one.finding.dated_headline)
        for one in report.findings
        if one.finding.store == store
    ]
    rates = draw(
        Frame("operations per second", since, until, lambda value: f"{value:g}/s"),
        [
            ChartLine("appends acknowledged", "a", _stretches(series, "acknowledged_rate"), fills=True),
            ChartLine("reads", "b", _stretches(series, "read_rate")),
            ChartLine("messages verified", "c", _stretches(series, "verified_rate")),
            ChartLine("errors", "e", _stretches(series, "error_rate")),
        ],
        bands,
        marks,
    )
    latencies = draw(
        Frame("time to answer", since, until, _duration, is_log=True),
        [
            ChartLine("append p99", "a thick", _stretches(series, "append_p99_seconds")),
            ChartLine("append p50", "a dashed", _stretches(series, "append_p50_seconds")),
            ChartLine("read p99", "b thick", _stretches(series, "read_p99_seconds")),
            ChartLine("read p50", "b dashed", _stretches(series, "read_p50_seconds")),
        ],
        bands,
        marks,
    )
    return StoreCharts(store, rates, latencies, _violations(series, since, until, bands))


def _violations(series: Series, since: float, until: float, bands: list[Band]) -> Markup | None:
    if not series.points[-1].violations:
        return None
    frame = Frame("violations so far", since, until, lambda value: f"{value:g}")
    return draw(frame, [ChartLine("violations", "e", _stretches(series, "violations"), fills=True)], bands)


def _end_of(fault: FaultResult, until: float) -> float:
    return until if fault.ended_wall_seconds is None else fault.ended_wall_seconds


def _stretches(series: Series, name: str) -> list[list[tuple[float, float]]]:
    """Return the dots of one quantity; where there was nothing to measure a line is broken, too."""
    found: list[list[tuple[float, float]]] = []
    for stretch in series.stretches():
        found.append([])
        for point in stretch:
            value = getattr(point, name)
            if value is None:
                found.append([])
            else:
                found[-1].append((_middle(point), float(value)))
    return [dots for dots in found if dots]


def _middle(point: Point) -> float:
    return point.at_wall_seconds - point.seconds / 2


def _duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
