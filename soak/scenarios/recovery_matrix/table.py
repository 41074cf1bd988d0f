"""The matrix as people and programs read it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

import msgspec

from soak.report.text import table_lines
from soak.scenarios.recovery_matrix.judgement import RecoveryCell, RecoveryMeasurement, RecoveryVerdict
from soak.scenarios.terminal import markdown_table

HEADS = ("configuration", "fault", "acknowledged", "unknown", "lost", "RPO", "RTO", "promised", "contract")


def report_lines(results: Sequence[RecoveryCell], seconds: float) -> list[str]:
    """Make the table, what is wrong under it, what was read back from the servers, and the sum in the last line."""
    return [
        *table_lines(HEADS, [_row(result) for result in results]),
        "",
        *_and_blank(complaints(results)),
        *_and_blank(repairs(results)),
        *_and_blank([f"{name}: {origin}" for name, origin in _origins(results).items()]),
        summary(results, seconds),
    ]


def markdown_lines(results: Sequence[RecoveryCell], seconds: float) -> list[str]:
    """Make the same for a page: configurations by faults, and every number folded under it."""
    configurations, faults = axes(results)
    by_name = {(one.configuration, one.fault): one for one in results}
    pivot = [
        (f"`{name}`", *(_cell(by_name.get((name, fault))) for fault in faults), _promised(results, name))
        for name in configurations
    ]
    return [
        *markdown_table(("lost / RPO / RTO", *faults, "may lose"), pivot),
        "",
        *_and_blank([f"- {line}" for line in complaints(results)]),
        *_and_blank([f"- {line}" for line in repairs(results)]),
        summary(results, seconds),
        "",
        "<details><summary>Every number</summary>",
        "",
        *markdown_table(HEADS, [_row(result) for result in results], _NUMBERS),
        "",
        *_and_blank([f"- `{name}`: {origin}" for name, origin in _origins(results).items()]),
        "</details>",
    ]


def axes(results: Sequence[RecoveryCell]) -> tuple[list[str], list[str]]:
    """Return the configurations and the faults, in the order of the results."""
    return list(dict.fromkeys(one.configuration for one in results)), list(dict.fromkeys(one.fault for one in results))


def _cell(result: RecoveryCell | None) -> str:
    if result is None:
        return ""
    if result.measured is None:
        return result.verdict.value
    shown = f"{result.measured.lost:,} / {point(result.measured)} / {result.recovery_seconds:.2f} s"
    return shown if result.measured.is_inside else f"**{shown} {result.verdict.value}**"


def _promised(results: Sequence[RecoveryCell], configuration: str) -> str:
    """Return what the configuration may lose in the worst of the faults."""
    promises = [one.measured for one in results if one.configuration == configuration and one.measured is not None]
    worst = max(
        promises, key=lambda one: math.inf if one.promised_seconds is None else one.promised_seconds, default=None
    )
    return "" if worst is None else worst.promised


def as_json(results: Sequence[RecoveryCell], seconds: float) -> dict[str, object]:
    """Return the same for a program."""
    return {
        "passed": all(result.verdict is RecoveryVerdict.INSIDE for result in results),
        "seconds": round(seconds, 3),
        "cells": [{"verdict": result.verdict.value, **msgspec.to_builtins(result)} for result in results],
    }


def complaints(results: Sequence[RecoveryCell]) -> list[str]:
    """Say what is wrong with each cell that is not inside."""
    return [f"{one.configuration}, {one.fault}: {reason}" for one in results for reason in one.reasons]


def repairs(results: Sequence[RecoveryCell]) -> list[str]:
    """Say which servers did not come back by themselves, and how often, with the first story of each."""
    return [
        f"{one.configuration}, {one.fault}: in {len(one.repairs)} of {one.repeats} {one.repairs[0]}"
        for one in results
        if one.repairs
    ]


def summary(results: Sequence[RecoveryCell], seconds: float) -> str:
    """Say in one line how many cells kept what is promised, on which servers, and how often each was tried."""
    counted = Counter(result.verdict for result in results)
    others = [f"{counted[verdict]} {verdict.value}" for verdict in (RecoveryVerdict.BEYOND, RecoveryVerdict.NOT_MADE)]
    shown = ", ".join(other for other in others if not other.startswith("0 "))
    servers = ", ".join(dict.fromkeys(result.server for result in results if result.server))
    repeats = max((result.repeats for result in results), default=1)
    parts = [
        f"{counted[RecoveryVerdict.INSIDE]} of {len(results)} cells inside their contract"
        + (f", {shown}" if shown else ""),
        *([f"the worst of {repeats} tries each"] if repeats > 1 else []),
        *([servers] if servers else []),
        f"{seconds:.0f} s",
    ]
    return "; ".join(parts)


_NUMBERS = frozenset({"acknowledged", "unknown", "lost", "RPO", "RTO"})


def _row(result: RecoveryCell) -> tuple[str, ...]:
    measured = result.measured
    if measured is None:
        return (result.configuration, result.fault, "-", "-", "-", "-", "-", "-", result.verdict.value)
    return (
        result.configuration,
        result.fault,
        f"{measured.acknowledged:,}",
        _unknown(measured),
        "all" if measured.lost == measured.acknowledged else f"{measured.lost:,}",
        point(measured),
        f"{result.recovery_seconds:.2f} s",
        measured.promised,
        result.verdict.value,
    )


def point(measured: RecoveryMeasurement) -> str:
    """Return the recovery point: at least so long, where everything is lost and the number is that of the load."""
    if not measured.lost:
        return "0"
    if measured.lost == measured.acknowledged:
        return f"≥ {math.floor(measured.recovery_point_seconds * 10) / 10:g} s (all)"
    return "<0.01 s" if measured.recovery_point_seconds < 0.01 else f"{measured.recovery_point_seconds:.2f} s"


def _unknown(measured: RecoveryMeasurement) -> str:
    return f"{measured.unknown} ({measured.surfaced} there)" if measured.surfaced else str(measured.unknown)


def _origins(results: Sequence[RecoveryCell]) -> dict[str, str]:
    """Return what the contract of each configuration was derived from."""
    return {result.configuration: result.origin for result in results if result.origin}


def _and_blank(lines: Sequence[str]) -> list[str]:
    return [*lines, ""] if lines else []


# -- the matrix as a picture: an SVG that any page can show --


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
                parts += _drawn_cell(found, NAME_WIDTH + CELL_WIDTH * column, top)
    legend = "age of the oldest lost message (RPO) and time to recovery (RTO); green: nothing lost; red: everything"
    parts.append(_text(width / 2, height - 9, legend, "middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn_cell(result: RecoveryCell, left: float, top: float) -> list[str]:
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
