"""What the charts of the page are drawn from: the last minutes in full, and what was before in few points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from soak.report.series import Point, Series

FIELDS = Point.__struct_fields__
DIGITS = 5
"""More than these nobody sees in a chart; moments keep theirs."""


class Measurements(Protocol):
    """Whoever measures as it goes."""

    @property
    def whole(self) -> Mapping[str, Series]: ...

    @property
    def recent(self) -> Mapping[str, Sequence[Point]]: ...


class ChartPoints(msgspec.Struct, frozen=True, kw_only=True):
    """The points of each store, the oldest first, as rows of the named fields."""

    fields: tuple[str, ...]
    stores: dict[str, list[list[float | None]]]


def charted(measurements: Measurements, since_wall_seconds: float = 0.0) -> ChartPoints:
    """Return the points of each store since a moment, the oldest first, as rows of the named fields."""
    return ChartPoints(
        fields=FIELDS,
        stores={
            store: [_row(point) for point in _points(measurements, store) if point.at_wall_seconds > since_wall_seconds]
            for store in measurements.whole
        },
    )


def _points(measurements: Measurements, store: str) -> list[Point]:
    recent = list(measurements.recent[store])
    earlier = measurements.whole[store].points
    if recent:
        earlier = [point for point in earlier if point.at_wall_seconds < recent[0].at_wall_seconds]
    return [*earlier, *recent]


def _row(point: Point) -> list[float | None]:
    values = (getattr(point, field) for field in FIELDS)
    return [_short(value) if field != "at_wall_seconds" else value for field, value in zip(FIELDS, values, strict=True)]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
