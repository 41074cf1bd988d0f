"""The cells as a table: for a terminal, for a page in Markdown, for machines."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import UsageError
from soak.proc.files import write_whole
from soak.report.text import plain, table_lines
from soak.scenarios.analyses.judgement import TrialResult, TrialVerdict
from soak.scenarios.analyses.trials import ALL
from soak.scenarios.terminal import markdown_table

REASON_CHARACTERS_MAX = 220


def report_lines(cells: Sequence[TrialResult], seconds: float) -> list[str]:
    """Return what a terminal shows: each library by itself, then the reasons, then how to make a cell again."""
    lines: list[str] = []
    for subject in dict.fromkeys(cell.subject for cell in cells):
        own = [cell for cell in cells if cell.subject == subject]
        lines += [f"{subject}  ({own[0].library} {own[0].version})".rstrip(), *_rows(own), ""]
    findings = [cell for cell in cells if cell.verdict is TrialVerdict.FINDING]
    if findings:
        lines += ["To see a finding again:", *(f"  {cell.command}" for cell in findings), ""]
    return [*lines, summary(cells, seconds)]


def _rows(cells: Sequence[TrialResult]) -> list[str]:
    rows = [
        (f"  {cell.trial}", cell.verdict.value, cell.words if cell.found or cell.tolerated else "", _remark(cell))
        for cell in cells
    ]
    return table_lines(("  trial", "verdict", "found", "remarks"), rows)


def _remark(cell: TrialResult) -> str:
    said = cell.reason or "; ".join(cell.notes)
    parts = [said, cell.example] if cell.verdict is TrialVerdict.FINDING else [said]
    return short(plain("; ".join(part for part in parts if part)))


MARKS = {TrialVerdict.PASS: "✓", TrialVerdict.FINDING: "✗", TrialVerdict.BY_DESIGN: "◌", TrialVerdict.INCONCLUSIVE: "?"}
"""What a cell of the heat map shows; one that is not applicable is empty."""
LEGEND = "✓ nothing found, ✗ finding, ◌ by design, ? inconclusive; empty: not applicable, or not tried."


def markdown_lines(results: Sequence[TrialResult], seconds: float) -> list[str]:
    """Return the findings, the heat map of libraries and trials, and folded what each trial asks and saw."""
    trials = list(dict.fromkeys(one.trial for one in results))
    subjects = {one.subject: one.version for one in results}
    by_name = {(one.subject, one.trial): one for one in results}
    rows = [
        (f"`{subject}`", version, *(_mark(by_name.get((subject, trial))) for trial in trials))
        for subject, version in subjects.items()
    ]
    findings = [one for one in results if one.verdict is TrialVerdict.FINDING]
    others = [one for one in results if one.verdict in {TrialVerdict.BY_DESIGN, TrialVerdict.INCONCLUSIVE}]
    return [
        *markdown_table(("library", "version", *trials), rows),
        "",
        LEGEND,
        "",
        *_folded("What each trial asks", [f"- **{name}**: {ALL[name].question}" for name in trials if name in ALL]),
        *_folded(f"The {len(findings)} findings, each with its command", _table_of(findings)),
        *_folded("What is by design, or inconclusive", _table_of(others)),
        summary(results, seconds),
    ]


def _mark(result: TrialResult | None) -> str:
    return "" if result is None else MARKS.get(result.verdict, "")


def _table_of(results: Sequence[TrialResult]) -> list[str]:
    rows = [(f"`{one.subject}`", one.trial, _cell_text(_seen(one)), f"`{one.command}`") for one in results]
    return markdown_table(("library", "trial", "what was seen", "again with"), rows) if rows else []


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""] if lines else []


def _seen(cell: TrialResult) -> str:
    if cell.verdict in {TrialVerdict.NOT_APPLICABLE, TrialVerdict.INCONCLUSIVE}:
        return f"{cell.verdict.value}: {short(cell.reason)}"
    counts = f"{cell.acknowledged:,} acknowledged"
    others = [f"{n:,} {word}" for n, word in ((cell.failed, "refused"), (cell.unknown, "of unknown fate")) if n]
    parts = [f"{cell.words}; {', '.join([counts, *others])}", cell.reason, cell.example, *cell.notes]
    return "; ".join(short(part) for part in parts if part)


def _cell_text(text: str) -> str:
    return plain(text).replace("|", "\\|").replace("<", "&lt;")


def short(text: str) -> str:
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 1] + "…"


def as_json(cells: Sequence[TrialResult], seconds: float) -> dict[str, Any]:
    """Return everything, for machines."""
    return {
        "seconds": round(seconds, 1),
        "verdicts": {verdict.value: sum(1 for cell in cells if cell.verdict is verdict) for verdict in TrialVerdict},
        "cells": [{**msgspec.to_builtins(cell), "command": cell.command} for cell in cells],
    }


def summary(cells: Sequence[TrialResult], seconds: float) -> str:
    counted = Counter(cell.verdict for cell in cells)
    libraries = len({cell.subject for cell in cells})
    verdicts = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in TrialVerdict if counted[verdict])
    return f"{len(cells)} cells of {libraries} libraries: {verdicts}; {seconds:.0f} s"


# -- the table inside a Markdown file: what is between two marks is replaced, the rest stays --


BEGIN, END = "<!-- analysis -->", "<!-- /analysis -->"


def check_marks(path: Path) -> None:
    """Check before anything is measured that the file has the marks; raises `UsageError`."""
    _parts(path)


def write_into(path: Path, cells: Sequence[TrialResult], seconds: float, command: str) -> None:
    """Put the table, and how it was made, between the marks of a file."""
    before, after = _parts(path)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    made = f"Measured on {today}, on {platform.system()} with {os.cpu_count()} cores, by:"
    lines = [BEGIN, made, "", "```", command, "```", "", *markdown_lines(cells, seconds), END]
    write_whole(path, (before + "\n".join(lines) + after).encode(), mode=0o644, is_synced=False)


def _parts(path: Path) -> tuple[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--into {path}: it cannot be read ({error}); name a Markdown file that is there") from None
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise UsageError(f"--into {path}: it has no lines {BEGIN} and {END}; put them where the table belongs")
    return before, after
