"""The matrix as people and programs read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from soak.matrix.measured import Measured
from soak.matrix.result import CellResult, Verdict
from soak.report.text import table_lines

HEADS = ("configuration", "fault", "acknowledged", "unknown", "lost", "RPO", "RTO", "promised", "contract")


def report_lines(results: Sequence[CellResult], seconds: float) -> list[str]:
    """Make the table, what is wrong under it, what was read back from the servers, and the sum in the last line."""
    return [
        *table_lines(HEADS, [_row(result) for result in results]),
        "",
        *_and_blank(complaints(results)),
        *_and_blank(repairs(results)),
        *_and_blank([f"{name}: {origin}" for name, origin in _origins(results).items()]),
        summary(results, seconds),
    ]


def markdown_lines(results: Sequence[CellResult], seconds: float) -> list[str]:
    """Make the same for a page."""
    rows = [_row(result) for result in results]
    return [
        f"| {' | '.join(HEADS)} |",
        f"|{'|'.join('---:' if head in _NUMBERS else '---' for head in HEADS)}|",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows),
        "",
        *_and_blank([f"- {line}" for line in complaints(results)]),
        *_and_blank([f"- {line}" for line in repairs(results)]),
        *_and_blank([f"- `{name}`: {origin}" for name, origin in _origins(results).items()]),
        summary(results, seconds),
    ]


def as_json(results: Sequence[CellResult], seconds: float) -> dict[str, object]:
    """Return the same for a program."""
    return {
        "passed": all(result.verdict is Verdict.INSIDE for result in results),
        "seconds": round(seconds, 3),
        "cells": [{"verdict": result.verdict.value, **msgspec.to_builtins(result)} for result in results],
    }


def complaints(results: Sequence[CellResult]) -> list[str]:
    """Say what is wrong with each cell that is not inside."""
    return [f"{one.configuration}, {one.fault}: {reason}" for one in results for reason in one.reasons]


def repairs(results: Sequence[CellResult]) -> list[str]:
    """Say which servers did not come back by themselves, and how often, with the first story of each."""
    return [
        f"{one.configuration}, {one.fault}: in {len(one.repairs)} of {one.repeats} {one.repairs[0]}"
        for one in results
        if one.repairs
    ]


def summary(results: Sequence[CellResult], seconds: float) -> str:
    """Say in one line how many cells kept what is promised, on which servers, and how often each was tried."""
    counted = Counter(result.verdict for result in results)
    others = [f"{counted[verdict]} {verdict.value}" for verdict in (Verdict.BEYOND, Verdict.NOT_MADE)]
    shown = ", ".join(other for other in others if not other.startswith("0 "))
    servers = ", ".join(dict.fromkeys(result.server for result in results if result.server))
    repeats = max((result.repeats for result in results), default=1)
    parts = [
        f"{counted[Verdict.INSIDE]} of {len(results)} cells inside their contract" + (f", {shown}" if shown else ""),
        *([f"the worst of {repeats} tries each"] if repeats > 1 else []),
        *([servers] if servers else []),
        f"{seconds:.0f} s",
    ]
    return "; ".join(parts)


_NUMBERS = frozenset({"acknowledged", "unknown", "lost", "RPO", "RTO"})


def _row(result: CellResult) -> tuple[str, ...]:
    measured = result.measured
    if measured is None:
        return (result.configuration, result.fault, "-", "-", "-", "-", "-", "-", result.verdict.value)
    return (
        result.configuration,
        result.fault,
        f"{measured.acknowledged:,}",
        _unknown(measured),
        "all" if measured.lost == measured.acknowledged else f"{measured.lost:,}",
        _point(measured),
        f"{result.recovery_seconds:.2f} s",
        measured.promised,
        result.verdict.value,
    )


def _point(measured: Measured) -> str:
    if not measured.lost:
        return "0"
    return "<0.01 s" if measured.recovery_point_seconds < 0.01 else f"{measured.recovery_point_seconds:.2f} s"


def _unknown(measured: Measured) -> str:
    return f"{measured.unknown} ({measured.surfaced} there)" if measured.surfaced else str(measured.unknown)


def _origins(results: Sequence[CellResult]) -> dict[str, str]:
    """Return what the contract of each configuration was derived from."""
    return {result.configuration: result.origin for result in results if result.origin}


def _and_blank(lines: Sequence[str]) -> list[str]:
    return [*lines, ""] if lines else []
