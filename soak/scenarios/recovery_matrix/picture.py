"""The matrix as a picture: an SVG that any page can show, by itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from soak.scenarios.recovery_matrix.judgement import RecoveryCell, RecoveryVerdict
from soak.scenarios.recovery_matrix.table import axes, point

NAME_WIDTH, CELL_WIDTH, CELL_HEIGHT, HEAD_HEIGHT = 150, 175, 34, 40
NOTHING, SOME, EVERYTHING, NONE = "#2a9d4a", "#d9a400", "#c8402f", "#9994"
"""Colours: nothing lost, a part, everything, not measured."""


def draw(results: Sequence[RecoveryCell]) -> str:
    """Return the picture: a row for each configuration, a column for each fault, and what was lost in each."""
    configurations, faults = axes(results)
    by_name = {(one.configuration, one.fault): one for one in results}
    width = NAME_WIDTH + CELL_WIDTH * len(faults)
    height = HEAD_HEIGHT + CELL_HEIGHT * len(configurations) + 30
    parts = [
        _tag(
            "svg",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            role="img",
            font_family="sans-serif",
            font_size=13,
            aria_label="What each configuration loses in each fault",
        ),
        _tag("rect", "/", width=width, height=height, fill="#fff"),
        *(
            _text(NAME_WIDTH + CELL_WIDTH * (column + 0.5), HEAD_HEIGHT - 14, fault, "middle")
            for column, fault in enumerate(faults)
        ),
    ]
    for row, name in enumerate(configurations):
        top = HEAD_HEIGHT + CELL_HEIGHT * row
        parts.append(_text(NAME_WIDTH - 10, top + 22, name, "end"))
        for column, fault in enumerate(faults):
            if (found := by_name.get((name, fault))) is not None:
                parts += _cell(found, NAME_WIDTH + CELL_WIDTH * column, top)
    legend = "age of the oldest lost message (RPO) and time to recovery (RTO); green: nothing lost; red: everything"
    parts.append(_text(width / 2, height - 9, legend, "middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cell(result: RecoveryCell, left: float, top: float) -> list[str]:
    measured = result.measured
    if measured is None:
        colour, shown = NONE, result.verdict.value
    else:
        colour = NOTHING if not measured.lost else EVERYTHING if measured.lost == measured.acknowledged else SOME
        shown = f"{'0' if not measured.lost else point(measured)}, RTO {result.recovery_seconds:.1f} s"
        if result.verdict is RecoveryVerdict.BEYOND:
            shown += " !"
    return [
        _tag("rect", "/", x=left + 2, y=top + 2, width=CELL_WIDTH - 4, height=CELL_HEIGHT - 4, rx=4, fill=colour),
        _text(left + CELL_WIDTH / 2, top + 22, shown, "middle", "#fff"),
    ]


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#222") -> str:
    return f"{_tag('text', x=x, y=y, text_anchor=anchor, fill=colour)}{escape(text)}</text>"


def _tag(name: str, end: str = "", **attributes: object) -> str:
    shown = " ".join(f'{key.replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items())
    return f"<{name} {shown}{end}>"
