"""Charts as SVG, drawn here: they need no script, no network, and can be printed.

Colours come from the page by class, so that a chart is light or dark with it. What a chart shows is also said in words,
for those who cannot see it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from soak.report.text import one_line

WIDTH, HEIGHT = 960, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 18, 30
TICKS_UP = 4
TICKS_ALONG = 8
BANDS_MAX = 300
MARKS_MAX = 300
LOG_FLOOR = 1e-4
LABEL_CHARACTERS_MAX = 80
_TIME_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)

Dot = tuple[float, float]


class ChartLine(NamedTuple):
    """One line of a chart, in stretches: nothing is drawn between two of them."""

    name: str
    style: str
    stretches: list[list[Dot]]
    fills: bool = False


class Band(NamedTuple):
    """A time that is shaded."""

    since: float
    until: float
    label: str


class Mark(NamedTuple):
    """A moment that is marked."""

    at: float
    label: str


class Frame(NamedTuple):
    """What is drawn around the lines."""

    title: str
    since: float
    until: float
    write: Callable[[float], str]
    """Writes a value of the upright axis, with its unit."""
    is_log: bool = False


def draw(frame: Frame, lines: Sequence[ChartLine], bands: Sequence[Band] = (), marks: Sequence[Mark] = ()) -> Markup:
    """Draw a chart."""
    values = [value for line in lines for stretch in line.stretches for _, value in stretch]
    scale = _log_scale(values) if frame.is_log else _linear_scale(values)
    along = _along(frame)
    parts = [
        _bands(bands, along),
        *(_level(scale.y(value), frame.write(value)) for value in scale.ticks),
        *(_moment(along(at), label) for at, label in _time_ticks(frame.since, frame.until)),
        *(_line(line, along, scale.y) for line in lines),
        _marks(marks, along),
    ]
    words = one_line(_words(frame, lines, bands), 600)
    label = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>').format(
        WIDTH, HEIGHT, words, words
    )
    return label + Markup("").join(parts) + Markup("</svg>")


class _Scale(NamedTuple):
    ticks: list[float]
    y: Callable[[float], float]


def _linear_scale(values: Sequence[float]) -> _Scale:
    step = nice_step(max(values, default=0.0) / TICKS_UP)
    top = step * max(1, math.ceil(max(values, default=0.0) / step - 1e-9))
    ticks = [step * number for number in range(round(top / step) + 1)]
    return _Scale(ticks, lambda value: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(value, 0.0), top) / top)


def _log_scale(values: Sequence[float]) -> _Scale:
    known = [max(value, LOG_FLOOR) for value in values] or [0.001, 1.0]
    low, high = math.floor(math.log10(min(known)) + 1e-9), math.ceil(math.log10(max(known)) - 1e-9)
    high = max(high, low + 1)

    def y(value: float) -> float:
        share = (math.log10(max(value, LOG_FLOOR)) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(share, 0.0), 1.0)

    return _Scale([10.0**power for power in range(low, high + 1)], y)


def nice_step(rough: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 … that is not smaller."""
    if rough <= 0 or not math.isfinite(rough):
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next((power * factor for factor in (1, 2, 5) if power * factor >= rough * (1 - 1e-9)), power * 10)


def _along(frame: Frame) -> Callable[[float], float]:
    whole = max(frame.until - frame.since, 1e-3)
    return lambda at: LEFT + (WIDTH - LEFT - RIGHT) * min(max((at - frame.since) / whole, 0.0), 1.0)


def _time_ticks(since: float, until: float) -> list[tuple[float, str]]:
    whole = max(until - since, 1e-3)
    step = next((step for step in _TIME_STEPS_SECONDS if whole / step <= TICKS_ALONG), None)
    step = step or math.ceil(whole / TICKS_ALONG / 86_400) * 86_400
    pattern = "%H:%M:%S" if step < 60 else ("%m-%d" if step >= 86_400 else "%m-%d %H:%M" if whole > 86_400 else "%H:%M")
    # Whole hours and days are those of the clock on the wall.
    offset = time.localtime(since).tm_gmtoff
    first = math.ceil((since + offset) / step) * step - offset
    count = int((until - first) // step) + 1
    ticks = [first + number * step for number in range(max(0, min(count, TICKS_ALONG + 1)))]
    return [(at, time.strftime(pattern, time.localtime(at))) for at in ticks]


def _level(y: float, text: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{y}" y2="{y}"/><text class="up" x="{}" y="{}">{}</text>'
    ).format(LEFT, WIDTH - RIGHT, LEFT - 8, _short(y + 4), text, y=_short(y))


def _moment(x: float, text: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{x}" x2="{x}" y1="{}" y2="{}"/><text class="along" x="{x}" y="{}">{}</text>'
    ).format(HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4, HEIGHT - BOTTOM + 19, text, x=_short(x))


def _line(line: ChartLine, along: Callable[[float], float], up: Callable[[float], float]) -> Markup:
    parts = []
    for stretch in line.stretches:
        dots = [(along(at), up(value)) for at, value in stretch]
        path = " ".join(f"{_short(x)},{_short(y)}" for x, y in dots)
        if len(dots) == 1:
            parts.append(Markup('<circle class="{}" cx="{}" cy="{}" r="2"/>').format(line.style, *map(_short, dots[0])))
            continue
        if line.fills and dots:
            floor = HEIGHT - BOTTOM
            area = f"{_short(dots[0][0])},{floor} {path} {_short(dots[-1][0])},{floor}"
            parts.append(Markup('<polygon class="{} area" points="{}"/>').format(line.style, area))
        parts.append(Markup('<polyline class="{}" points="{}"/>').format(line.style, path))
    return Markup("").join(parts)


def _bands(bands: Sequence[Band], along: Callable[[float], float]) -> Markup:
    parts, labelled_until = [], 0.0
    for band in bands[-BANDS_MAX:]:
        x, end = along(band.since), along(band.until)
        label = one_line(band.label, LABEL_CHARACTERS_MAX)
        parts.append(
            Markup('<rect class="fault" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                _short(x), TOP, _short(max(1.5, end - x)), HEIGHT - BOTTOM - TOP, label
            )
        )
        width = 6.0 * len(label)
        if x >= labelled_until and x + width <= WIDTH - RIGHT:
            parts.append(Markup('<text class="fault" x="{}" y="{}">{}</text>').format(_short(x), TOP - 6, label))
            labelled_until = x + width + 8
    return Markup("").join(parts)


def _marks(marks: Sequence[Mark], along: Callable[[float], float]) -> Markup:
    floor = HEIGHT - BOTTOM
    return Markup("").join(
        Markup('<path class="mark" d="M{} {} l4 7 h-8 z"><title>{}</title></path>').format(
            _short(along(mark.at)), floor - 7, one_line(mark.label, LABEL_CHARACTERS_MAX)
        )
        for mark in marks[:MARKS_MAX]
    )


def _words(frame: Frame, lines: Sequence[ChartLine], bands: Sequence[Band]) -> str:
    parts = [frame.title]
    for line in lines:
        values = [value for stretch in line.stretches for _, value in stretch]
        if values:
            middle = sorted(values)[len(values) // 2]
            parts.append(f"{line.name}: mostly {frame.write(middle)}, at most {frame.write(max(values))}")
    parts.append(f"{len(bands)} faults" if bands else "no faults")
    return "; ".join(parts)


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
