"""The matrix as people and programs read it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

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
