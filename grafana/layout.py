"""Where the panels stand: bands of the same height, each as wide as the page."""

from __future__ import annotations

from collections.abc import Sequence
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


def placed(sections: Sequence[Section]) -> list[Panel | RowPanel]:
    """Give every panel its place and its number."""
    panels: list[Panel | RowPanel] = []
    y = 0
    for section in sections:
        heading = Row(section.title).id(len(panels) + 1).collapsed(False)
        panels.append(heading.grid_pos(GridPos(h=1, w=WIDTH, x=0, y=y)).build())
        y += 1
        for band in section.bands:
            x = 0
            for panel, width in zip(band.panels, _widths(band), strict=True):
                built = panel.build()
                built.grid_pos = GridPos(h=band.height, w=width, x=x, y=y)
                built.id_val = len(panels) + 1
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
