"""The cells as a table: for a terminal, for a page in Markdown, for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from soak.analysis.result import Cell, Verdict
from soak.report.text import plain, table_lines

REASON_CHARACTERS_MAX = 220


def report_lines(cells: Sequence[Cell], seconds: float) -> list[str]:
    """Return what a terminal shows: each library by itself, then the reasons, then how to make a cell again."""
    lines: list[str] = []
    for subject in dict.fromkeys(cell.subject for cell in cells):
        own = [cell for cell in cells if cell.subject == subject]
        lines += [f"{subject}  ({own[0].library} {own[0].version})".rstrip(), *_rows(own), ""]
    findings = [cell for cell in cells if cell.verdict is Verdict.FINDING]
    if findings:
        lines += ["To see a finding again:", *(f"  {cell.command}" for cell in findings), ""]
    return [*lines, summary(cells, seconds)]


def _rows(cells: Sequence[Cell]) -> list[str]:
    rows = [
        (f"  {cell.trial}", cell.verdict.value, cell.words if cell.found or cell.tolerated else "", _remark(cell))
        for cell in cells
    ]
    return table_lines(("  trial", "verdict", "found", "remarks"), rows)


def _remark(cell: Cell) -> str:
    said = cell.reason or "; ".join(cell.notes)
    parts = [said, cell.example] if cell.verdict is Verdict.FINDING else [said]
    return short(plain("; ".join(part for part in parts if part)))


def markdown_lines(cells: Sequence[Cell], seconds: float) -> list[str]:
    """Return the matrix of libraries and trials, then each cell that needs a word."""
    trials = list(dict.fromkeys(cell.trial for cell in cells))
    subjects = list(dict.fromkeys(cell.subject for cell in cells))
    by_place = {(cell.subject, cell.trial): cell for cell in cells}
    heads = ["library", "version", *trials]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for subject in subjects:
        own = [by_place.get((subject, trial)) for trial in trials]
        version = next(cell.version for cell in cells if cell.subject == subject)
        shown = [f"`{subject}`", version, *("" if cell is None else _in_table(cell) for cell in own)]
        lines.append("| " + " | ".join(shown) + " |")
    told = [cell for cell in cells if cell.verdict is not Verdict.PASS]
    if told:
        lines += ["", "| library | trial | what was seen | again with |", "|---|---|---|---|"]
        lines += [
            f"| `{cell.subject}` | {cell.trial} | {_cell_text(_seen(cell))} | `{cell.command}` |" for cell in told
        ]
    return [*lines, "", summary(cells, seconds)]


def _in_table(cell: Cell) -> str:
    if cell.verdict is Verdict.NOT_APPLICABLE:
        return "-"
    return f"**{cell.words}**" if cell.verdict is Verdict.FINDING else cell.words


def _seen(cell: Cell) -> str:
    if cell.verdict in {Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE}:
        return f"{cell.verdict.value}: {short(cell.reason)}"
    counts = f"{cell.acknowledged:,} acknowledged"
    others = [f"{n:,} {word}" for n, word in ((cell.failed, "refused"), (cell.unknown, "of unknown fate")) if n]
    parts = [f"{cell.words}; {', '.join([counts, *others])}", cell.reason, cell.example, *cell.notes]
    return "; ".join(short(part) for part in parts if part)


def _cell_text(text: str) -> str:
    return plain(text).replace("|", "\\|").replace("<", "&lt;")


def short(text: str) -> str:
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 1] + "…"


def as_json(cells: Sequence[Cell], seconds: float) -> dict[str, Any]:
    """Return everything, for machines."""
    return {
        "seconds": round(seconds, 1),
        "verdicts": {verdict.value: sum(1 for cell in cells if cell.verdict is verdict) for verdict in Verdict},
        "cells": [{**msgspec.to_builtins(cell), "command": cell.command} for cell in cells],
    }


def summary(cells: Sequence[Cell], seconds: float) -> str:
    counted = Counter(cell.verdict for cell in cells)
    libraries = len({cell.subject for cell in cells})
    verdicts = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in Verdict if counted[verdict])
    return f"{len(cells)} cells of {libraries} libraries: {verdicts}; {seconds:.0f} s"
