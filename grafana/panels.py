"""Panels as this project wants them: one function per kind, each with a title, a description and a unit.

What is absent never looks well: tiles are red below zero, where the queries put "no data", and for null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models.dashboard import (
    DashboardSpecialValueMapOptions,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Panel,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.queries import NO_DATA

GREEN, ORANGE, RED, BLUE, GREY = "green", "orange", "red", "blue", "text"
SOURCE = options.DataSourceRef(type_val="prometheus", uid="${datasource}")
NOTHING = "no data"

Steps = Sequence[tuple[float, str]]
Words = Mapping[int, tuple[str, str]]
"""What a number means: its text and its colour."""


@dataclass(frozen=True)
class Query:
    """One query of a panel."""

    expr: str
    legend: str = "__auto"
    dashed: bool = False
    """A promise or a limit, beside what is measured."""


def _targets(queries: Sequence[Query], *, instant: bool, form: PromQueryFormat) -> list[prometheus.Dataquery]:
    targets = []
    for number, query in enumerate(queries):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + number)).datasource(SOURCE)
        target = target.expr(query.expr).legend_format(query.legend).format(form)
        targets.append(target.instant() if instant else target.range())
    return targets


def _thresholds(steps: Steps, base: str) -> dashboards.ThresholdsConfig:
    found = [Threshold(value=None, color=base), *(Threshold(value=value, color=color) for value, color in steps)]
    return dashboards.ThresholdsConfig().steps(found)


def _mappings(words: Words) -> list[ValueMapping]:
    values = {str(value): ValueMappingResult(text=text, color=color) for value, (text, color) in words.items()}
    nothing = DashboardSpecialValueMapOptions(
        match=SpecialValueMatch.NULL_AND_NAN, result=ValueMappingResult(text=NOTHING, color=RED)
    )
    known: list[ValueMapping] = [ValueMap(options={**values, str(NO_DATA): ValueMappingResult(NOTHING, RED)})]
    return [*known, SpecialValueMap(options=nothing)]


def tile(
    title: str, description: str, query: Query, *, unit: str, steps: Steps, words: Words | None = None
) -> Builder[Panel]:
    """One number that is asked for now, not the last one that was known, on a coloured ground."""
    last = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    panel = stat.Panel().title(title).description(description).datasource(SOURCE).unit(unit).no_value(NOTHING)
    panel = panel.targets(list(_targets([query], instant=True, form=PromQueryFormat.TIME_SERIES)))
    panel = panel.thresholds(_thresholds(steps, base=RED)).mappings(_mappings(words or {}))
    panel = panel.color_scheme(dashboards.FieldColor().mode(FieldColorModeId.THRESHOLDS)).reduce_options(last)
    panel = panel.color_mode(options.BigValueColorMode.BACKGROUND_SOLID).graph_mode(options.BigValueGraphMode.NONE)
    return panel.text_mode(options.BigValueTextMode.AUTO)


def graph(
    title: str,
    description: str,
    *queries: Query,
    unit: str,
    stacked: bool = False,
    bars: bool = False,
    points: bool = False,
    zero_based: bool = True,
    steps: Steps = (),
) -> Builder[Panel]:
    """Lines over time; limits are dashed."""
    legend = common.VizLegendOptions().display_mode(options.LegendDisplayMode.LIST).show_legend(True)
    tooltip = common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING)
    panel = timeseries.Panel().title(title).description(description).datasource(SOURCE).unit(unit)
    panel = panel.targets(list(_targets(queries, instant=False, form=PromQueryFormat.TIME_SERIES)))
    panel = panel.legend(legend.placement(options.LegendPlacement.BOTTOM).calcs([])).tooltip(tooltip)
    panel = panel.line_width(1).fill_opacity(60 if bars else 25 if stacked else 8).no_value(NOTHING)
    # A gap is a gap: nobody knows what was between.
    panel = panel.span_nulls(False).show_points(options.VisibilityMode.AUTO)
    if zero_based:
        panel = panel.min(0)
    if bars:
        panel = panel.draw_style(options.GraphDrawStyle.BARS)
    if points:
        panel = panel.draw_style(options.GraphDrawStyle.POINTS).point_size(8)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL).group("A"))
    if steps:
        style = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(_thresholds(steps, base="transparent")).thresholds_style(style)
    for number, query in enumerate(queries):
        if query.dashed:
            panel = panel.override_by_query(chr(ord("A") + number), _DASHED)
    return panel


_DASHED = [
    DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 10]}),
    DynamicConfigValue("custom.drawStyle", "line"),
    DynamicConfigValue("custom.lineWidth", 2),
    DynamicConfigValue("custom.fillOpacity", 0),
    DynamicConfigValue("custom.stacking", {"mode": "none", "group": "B"}),
]


def timeline(title: str, description: str, *queries: Query, words: Words) -> Builder[Panel]:
    """States over time, one line each."""
    legend = common.VizLegendOptions().display_mode(options.LegendDisplayMode.LIST).show_legend(True)
    panel = statetimeline.Panel().title(title).description(description).datasource(SOURCE).unit("none")
    panel = panel.targets(list(_targets(queries, instant=False, form=PromQueryFormat.TIME_SERIES)))
    panel = panel.mappings(_mappings(words)).thresholds(_thresholds((), base=GREY)).no_value(NOTHING)
    panel = panel.color_scheme(dashboards.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    panel = panel.show_value(options.VisibilityMode.NEVER).row_height(0.85).merge_values(True)
    return panel.legend(legend.placement(options.LegendPlacement.BOTTOM).calcs([]))


def heat(title: str, description: str, query: Query) -> Builder[Panel]:
    """Show how a histogram moves: time to the right, buckets upwards."""
    color = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Spectral").fill("dark-orange")
    panel = heatmap.Panel().title(title).description(description).datasource(SOURCE).unit("short")
    panel = panel.targets(list(_targets([query], instant=False, form=PromQueryFormat.HEATMAP)))
    panel = panel.calculate(False).color(color.exponent(0.5).steps(64).reverse(True)).no_value(NOTHING)
    panel = panel.y_axis(heatmap.YAxisConfig().unit("s").axis_placement(options.AxisPlacement.LEFT))
    panel = panel.rows_frame(heatmap.RowsHeatmapOptions().layout(options.HeatmapCellLayout.AUTO))
    panel = panel.tooltip(heatmap.HeatmapTooltip().mode(options.TooltipDisplayMode.SINGLE).y_histogram(True))
    return panel.filter_values(heatmap.FilterValueRange().le(1e-9)).cell_gap(1).show_legend()


def bars(title: str, description: str, query: Query, *, unit: str, steps: Steps) -> Builder[Panel]:
    """One bar for each series, as it is now."""
    last = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    panel = bargauge.Panel().title(title).description(description).datasource(SOURCE).unit(unit).no_value(NOTHING)
    panel = panel.targets(list(_targets([query], instant=True, form=PromQueryFormat.TIME_SERIES))).min(0)
    panel = panel.thresholds(_thresholds(steps, base=RED)).mappings(_mappings({})).reduce_options(last)
    panel = panel.color_scheme(dashboards.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    return panel.orientation(options.VizOrientation.HORIZONTAL).display_mode(options.BarGaugeDisplayMode.BASIC)


@dataclass(frozen=True)
class Column:
    """One query of a table, and what its column is called."""

    name: str
    expr: str
    unit: str = "short"
    steps: Steps = ()


def rows(
    title: str, description: str, *columns: Column, labels: Mapping[str, str], empty: str = NOTHING
) -> Builder[Panel]:
    """Lay instant queries with the same labels side by side, as a table."""
    queries = [Query(column.expr) for column in columns]
    panel = table.Panel().title(title).description(description).datasource(SOURCE).unit("short").no_value(empty)
    panel = panel.targets(list(_targets(queries, instant=True, form=PromQueryFormat.TABLE)))
    values = [f"Value #{chr(ord('A') + number)}" if len(columns) > 1 else "Value" for number in range(len(columns))]
    order = {name: place for place, name in enumerate((*labels, *values))}
    names = {**labels, **{value: column.name for value, column in zip(values, columns, strict=True)}}
    shown = {"includeByName": dict.fromkeys(order, True), "indexByName": order, "renameByName": names}
    if len(columns) > 1:
        panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    panel = panel.with_transformation(DataTransformerConfig(id_val="organize", options=shown))
    for column in columns:
        properties = [DynamicConfigValue("unit", column.unit)]
        if column.steps:
            found = _thresholds(column.steps, base="transparent").build()
            properties.append(DynamicConfigValue("thresholds", found))
            properties.append(DynamicConfigValue("custom.cellOptions", {"type": "color-background"}))
        panel = panel.override_by_name(column.name, properties)
    return panel
