"""Where the panels stand: bands of the same height, each as wide as the page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.dashboard import Row
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import GridPos, Panel, RowPanel

WIDTH = 24


@dataclass(frozen=True)
class Band:
    """Panels side by side; those that are given no width share what is left."""

    height: int
    panels: Sequence[Builder[Panel]]
    widths: Sequence[int] = ()


@dataclass(frozen=True)
class Section:
    """What stands under one heading."""

    title: str
    bands: Sequence[Band]
    repeated_by: str | None = None
    """The variable for each value of which it is there once."""
    is_collapsed: bool = False
    """Only its heading is there, and asks nothing, until somebody opens it."""


def placed(sections: Sequence[Section]) -> list[Panel | RowPanel]:
    """Give every panel its place and its number."""
    panels: list[Panel | RowPanel] = []
    numbers = itertools.count(1)
    y = 0
    for section in sections:
        heading = Row(section.title).id(next(numbers)).collapsed(section.is_collapsed)
        if section.repeated_by is not None:
            heading = heading.repeat(section.repeated_by)
        row = heading.grid_pos(GridPos(h=1, w=WIDTH, x=0, y=y)).build()
        panels.append(row)
        y += 1
        inside = _placed(section.bands, y, numbers)
        if section.is_collapsed:
            # Grafana keeps them in the row, and makes room when it is opened.
            row.panels = inside
        else:
            panels += inside
            y += sum(band.height for band in section.bands)
    return panels


def _placed(bands: Sequence[Band], y: int, numbers: Iterator[int]) -> list[Panel]:
    panels = []
    for band in bands:
        x = 0
        for panel, width in zip(band.panels, _widths(band), strict=True):
            built = panel.build()
            built.grid_pos = GridPos(h=band.height, w=width, x=x, y=y)
            built.id_val = next(numbers)
            panels.append(built)
            x += width
        y += band.height
    return panels


def _widths(band: Band) -> list[int]:
    share, left = divmod(WIDTH, len(band.panels))
    widths = list(band.widths) or [share] * len(band.panels)
    if sum(widths) != WIDTH or (left and not band.widths):
        raise ValueError(f"a band of {len(band.panels)} panels is {sum(widths)} wide, not {WIDTH}")
    return widths
