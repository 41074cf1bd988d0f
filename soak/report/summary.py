"""The end of a run for the person at the terminal: verdict, reasons, numbers, and where to look next."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from soak.duration import format_seconds
from soak.masking import mask
from soak.report.outcome import Outcome
from soak.report.page import Page
from soak.report.table import print_json
from soak.verifier.result import KindCount, RecoveryResult, Result, StoreResult, Totals

EVIDENCE_SHOWN = 5
RECOVERIES_SHOWN = 12
PLAIN_WIDTH = 120
_COLOURS = {"pass": "bold green", "violation": "bold red", "inconclusive": "bold yellow"}


def summary_console() -> Console:
    """Return a console wide enough for the tables where no terminal sets the width."""
    page = Page()
    return page if page.is_terminal else Page(width=PLAIN_WIDTH)


def print_summary(outcome: Outcome, console: Console) -> None:
    """Tell how the run ended."""
    result = outcome.result
    colour = _COLOURS.get(outcome.verdict, "bold")
    lasted = _lasted(result) if result is not None else ""
    console.print(f"\n[{colour}]{outcome.verdict}[/]  run {outcome.run}{lasted}", highlight=False)
    _print_lines(console, outcome.reasons)
    if result is not None:
        _print_lines(console, [*totals_lines(result.totals), alarm_line(result)])
        console.print(_stores(result.by_store))
        if result.violations_by:
            console.print(_violations(result.violations_by))
        if result.recoveries:
            console.print(_recoveries(result.recoveries))
        _print_lines(console, [f"evidence: {path}" for path in result.evidence[:EVIDENCE_SHOWN]])
        if result.violations_unlisted:
            told = f"{result.violations_unlisted:,} of the violations are counted, and not listed one by one"
            _print_lines(console, [told])
        _print_lines(console, _next_steps(result, outcome.data_dir))
        _print_lines(console, result.notes)
    restarts = {**outcome.child_restarts, **outcome.server_restarts}
    if again := ", ".join(f"{name} {count}x" for name, count in restarts.items() if count):
        _print_lines(console, [f"restarted: {again}"])
    _print_lines(console, outcome.notes)


def print_outcome_json(outcome: Outcome) -> None:
    """Tell the same to a machine."""
    print_json(msgspec.json.encode(outcome))


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(f"  {escape(mask(line))}", highlight=False, soft_wrap=True)


def _next_steps(result: Result, data_dir: str) -> list[str]:
    """Say how to learn more of what was found."""
    if not result.evidence:
        return []
    identity = Path(result.evidence[0]).name.split(".")[1]
    where = f"--data-dir {shlex.quote(data_dir)}"
    return [f"more: soak violations {where}; soak explain {identity} {where}"]


def _lasted(result: Result) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(result.ended_wall_seconds))
    seconds = max(0.0, result.ended_wall_seconds - result.started_wall_seconds)
    return f", {format_seconds(seconds)}, ended {when}"


def totals_lines(totals: Totals) -> list[str]:
    """Say what was counted."""
    attempts = ", ".join(f"{outcome} {count:,}" for outcome, count in totals.attempts.items())
    doubtful = f"{totals.unverifiable:,} unverifiable, {totals.indeterminate:,} indeterminate"
    return [
        f"attempts: {attempts} in {totals.sessions:,} sessions",
        f"{totals.acknowledged:,} acknowledged, {totals.verified:,} verified in {totals.reads:,} reads",
        f"{totals.released:,} were forgotten or had expired before they were read",
        f"{totals.violations:,} violations, {totals.tolerated:,} tolerated, {doubtful}",
    ]


def alarm_line(result: Result) -> str:
    """Say how the alarm did when it was tested."""
    if result.canaries is None:
        return "the alarm was not tested (verifier.canary = none)"
    detected, missed = (sum(one.detected for one in result.canaries), sum(one.missed for one in result.canaries))
    early = sum(one.early for one in result.canaries)
    told = f"the alarm rang in {detected:,} of {detected + missed:,} tests"
    return told + (f", and in {early:,} before there was reason to" if early else "")


def _stores(rows: list[StoreResult]) -> Table:
    table = Table("store", box=None, padding=(0, 2))
    for column in ("acknowledged", "verified", "forgotten", "violations", "tolerated"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (row.acknowledged, row.verified, row.released, row.violations, row.tolerated)
        table.add_row(escape(row.store), *(f"{number:,}" for number in numbers))
    return table


def _violations(rows: list[KindCount]) -> Table:
    table = Table("store", "kind", box=None, padding=(0, 2))
    table.add_column("violations", justify="right", style="red")
    for row in rows:
        table.add_row(escape(row.store), row.kind, f"{row.count:,}")
    return table


def _recoveries(rows: list[RecoveryResult]) -> Table:
    """Tell what each fault took, the worst first where there are too many."""
    shown = sorted(rows, key=lambda row: (row.kept, -row.point_seconds))[:RECOVERIES_SHOWN]
    title = f"{len(rows)} recoveries, the worst {len(shown)}:" if len(shown) < len(rows) else None
    table = Table("fault", "store", title=title, title_justify="left", box=None, padding=(0, 1))
    for column in ("recovery point", "promised", "tolerated", "lost", "read after", "write after", "unknown"):
        table.add_column(column, justify="right")
    for row in sorted(shown, key=lambda row: row.at_wall_seconds):
        promised = "anything" if row.promised_seconds is None else format_seconds(row.promised_seconds)
        point = f"{'at least ' if row.is_at_least else ''}{row.point_seconds:.3g}s"
        colour = "green" if row.kept else "red"
        fault = f"{row.kind} of {row.server}"
        table.add_row(
            escape(fault),
            escape(row.store),
            f"[{colour}]{point}[/]",
            promised,
            f"{row.tolerated:,}",
            f"{row.lost:,}",
            _after(row.read_seconds),
            _after(row.write_seconds),
            f"{row.unknown:,}" + (f" ({row.surfaced:,} seen)" if row.surfaced else ""),
        )
    return table


def _after(seconds: float | None) -> str:
    return "-" if seconds is None else format_seconds(seconds)
