"""The end of a run for the person at the terminal: verdict, reasons, numbers, and where to look next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection
from itertools import groupby
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from soak.checker.kinds import Kind
from soak.checker.verdict import Verdict
from soak.duration import format_latency, format_seconds
from soak.masking import mask
from soak.report.headline import further_reasons, headline_of_run, short_names
from soak.report.outcome import RunOutcome
from soak.report.text import PLAIN_WIDTH, OutputConsole, clock, print_json
from soak.store_errors import ErrorNature
from soak.verifier.findings import FindingResult
from soak.verifier.result import (
    KindCount,
    LatencyResult,
    RecoveryResult,
    Result,
    StoreResult,
    ThresholdState,
    Totals,
)

FINDINGS_SHOWN = 10
EVIDENCE_SHOWN = 5
STAYED_SHOWN = 3
STORE_ERRORS_SHOWN = 5
RECOVERIES_SHOWN = 12
STORE_COLUMNS = ("acknowledged", "verified", "forgotten", "violations", "tolerated")
RECOVERY_COLUMNS = ("data lost (RPO)", "promised", "tolerated", "lost", "reads back (RTO)", "writes back", "unknown")
LATENCY_COLUMNS = ("answered", "errors", "p50", "p95", "p99", "max")
_COLOURS = {"pass": "bold green", "violation": "bold red", "inconclusive": "bold yellow", "threshold": "bold yellow"}
_THRESHOLD_COLOURS = {
    ThresholdState.MET: "green",
    ThresholdState.MISSED: "red",
    ThresholdState.NO_SAMPLES: "yellow",
}


def summary_console() -> Console:
    """Return a console wide enough for the tables where no terminal sets the width."""
    page = OutputConsole()
    return page if page.is_terminal else OutputConsole(width=PLAIN_WIDTH)


def print_summary(outcome: RunOutcome, console: Console) -> None:
    """Print how the run ended."""
    result = outcome.result
    colour = _COLOURS.get(outcome.verdict, "bold")
    lasted = _lasted(result) if result is not None else ""
    console.print(f"\n[{colour}]{outcome.verdict}[/]  run {outcome.run}{lasted}", highlight=False)
    if outcome.verdict == Verdict.VIOLATION.value:
        console.print(f"  [bold]{escape(headline_of_run(outcome))}[/]", highlight=False, soft_wrap=True)
    _print_lines(console, further_reasons(outcome))
    if result is not None:
        _print_lines(console, tried_lines(outcome))
        _print_findings(console, result.findings, outcome.data_dir)
        _print_stayed(console, result)
        _print_lines(console, store_error_lines(result, outcome.reasons))
        _print_lines(console, [*totals_lines(result.totals), self_check_line(result)])
        console.print(_stores(result.by_store))
        if result.violations_by and not result.findings:
            console.print(_violations(result.violations_by))
        _print_tables(console, _latencies(result.latencies))
        for one in result.thresholds:
            shown = f"[{_THRESHOLD_COLOURS[one.state]}]{one.state.value:>10}[/]  threshold {escape(mask(one.line))}"
            console.print(f"  {shown}", highlight=False, soft_wrap=True)
        if result.recoveries:
            _print_tables(console, _recoveries(result.recoveries))
            _print_lines(console, replacement_lines(result.recoveries))
        _print_lines(console, [f"evidence: {path}" for path in _example_files(result)])
        if result.violations_unlisted:
            _print_lines(console, [f"{result.violations_unlisted:,} violations are counted, but not listed one by one"])
        _print_lines(console, _next_steps(result, outcome.data_dir))
        _print_lines(console, result.notes)
    restarts = {**outcome.child_restarts, **outcome.server_restarts}
    if again := ", ".join(f"{name} {count}x" for name, count in restarts.items() if count):
        _print_lines(console, [f"restarted: {again}"])
    _print_lines(console, outcome.notes)
    if outcome.setup is not None and outcome.setup.reproduce and outcome.verdict != Verdict.PASS.value:
        _print_lines(console, [f"to do it again: {outcome.setup.reproduce}"])


def print_outcome_json(outcome: RunOutcome) -> None:
    """Print the same as JSON."""
    print_json(msgspec.json.encode(outcome))


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(f"  {escape(mask(line))}", highlight=False, soft_wrap=True)


def _print_tables(console: Console, tables: list[Table]) -> None:
    for table in tables:
        console.print(table)


def _print_findings(console: Console, findings: list[FindingResult], data_dir: str) -> None:
    for finding in findings[:FINDINGS_SHOWN]:
        console.print(f"  [red]{escape(mask(finding.dated_headline))}[/]", highlight=False, soft_wrap=True)
        _print_lines(console, [f"  example: soak explain {finding.example.id} {_where(data_dir)}"])
    if left := len(findings) - FINDINGS_SHOWN:
        _print_lines(console, [f"and {left:,} further findings"] if left > 0 else [])


def _print_stayed(console: Console, result: Result) -> None:
    for line in stayed_lines(result):
        console.print(f"  [yellow]{escape(mask(line))}[/]", highlight=False, soft_wrap=True)


def stayed_lines(result: Result) -> list[str]:
    """Say of each failover which clients stayed with the old primary, those that did so longest first."""
    longest = sorted(result.stayed_clients, key=lambda one: -one.seconds_max)
    lines = [one.line for one in longest[:STAYED_SHOWN]]
    more = len(longest) - STAYED_SHOWN
    return lines + ([f"and {more:,} further failovers with clients that stayed"] if more > 0 else [])


def store_error_lines(result: Result, reasons: Collection[str] = ()) -> list[str]:
    """Say what the stores raised, once per kind; unavailability only where the run shows nothing else.

    What is among the reasons already is left out.
    """
    shown = [
        error
        for error in result.store_errors
        if error.line not in reasons
        and (error.nature is not ErrorNature.UNAVAILABLE or result.verdict == Verdict.INCONCLUSIVE.value)
    ]
    lines = [f"{error.line}, {error.count:,}x" for error in shown[:STORE_ERRORS_SHOWN]]
    more = len(shown) - STORE_ERRORS_SHOWN
    return lines + ([f"and {more:,} further kinds of exceptions"] if more > 0 else [])


def _example_files(result: Result) -> list[str]:
    """Return the evidence of each finding's example; of an older result, the first there is."""
    if not result.findings:
        return result.evidence[:EVIDENCE_SHOWN]
    folder = Path(result.evidence[0]).parent if result.evidence else None
    shown = [one for one in result.findings if one.example.has_evidence and folder is not None]
    return [str((folder or Path()) / f"{one.kind}.{one.example.id}.json") for one in shown[:EVIDENCE_SHOWN]]


def _where(data_dir: str) -> str:
    return f"--data-dir {shlex.quote(data_dir)}"


def listing_command(finding: FindingResult, data_dir: str) -> str:
    """Return the command that lists every violation of a finding."""
    return f"soak violations --finding {finding.id} {_where(data_dir)}"


def _next_steps(result: Result, data_dir: str) -> list[str]:
    """Say how to learn more of what was found."""
    if not result.evidence:
        return []
    where = _where(data_dir)
    if result.findings:
        return [f"every single violation: soak violations --each {where}"]
    identity = Path(result.evidence[0]).name.split(".")[1]
    return [f"more: soak violations {where}; soak explain {identity} {where}"]


def _lasted(result: Result) -> str:
    when = clock(result.ended_wall_seconds)
    seconds = max(0.0, result.ended_wall_seconds - result.started_wall_seconds)
    return f", {format_seconds(seconds)}, ended {when}"


def totals_lines(totals: Totals) -> list[str]:
    """Return what was counted."""
    attempts = ", ".join(f"{outcome} {count:,}" for outcome, count in totals.attempts.items())
    doubtful = f"{totals.unverifiable:,} unverifiable, {totals.indeterminate:,} unknown writes never seen"
    tolerated = f"{totals.tolerated:,} tolerated"
    if totals.tolerated and totals.acknowledged:
        tolerated += f" ({totals.tolerated / totals.acknowledged:.2%} of what was acknowledged)"
    return [
        f"attempts: {attempts} in {totals.sessions:,} sessions",
        f"{totals.acknowledged:,} acknowledged, {totals.verified:,} verified in {totals.reads:,} reads",
        *_never_verified_lines(totals),
        f"{totals.violations:,} violations, {tolerated}, {doubtful}",
    ]


def _never_verified_lines(totals: Totals) -> list[str]:
    """Say how much was never verified, and how much of that could not be: it was gone, rightly, before it was read."""
    never, released = totals.never_verified, totals.released
    if not never:
        return []
    line = f"{never:,} never verified ({totals.never_verified_share:.2%})"
    if not released:
        return [line]
    they = "it was" if released == 1 else "they were"
    of_them = "" if released == never else f"{released:,} of them "
    return [f"{line}: {of_them}forgotten or expired before {they} read"]


def tried_lines(outcome: RunOutcome) -> list[str]:
    """Say what the memory went through and what it was spared, and what replicas were late with because of it."""
    result = outcome.result
    if result is None:
        return outcome.schedule_lines
    late = [
        f"{row.store}: a fault kept reads of the replica back, {row.late_reads:,} messages late by up to "
        f"{row.late_reads_age_seconds_max:.1f} s, for up to {row.late_reads_seconds_max:.1f} s (tolerated)"
        for row in result.by_store
        if row.late_reads
    ]
    tried = [] if result.tried is None else [result.tried.text]
    return [*tried, *outcome.schedule_lines, *late, *_unshared_lines(result)]


def _unshared_lines(result: Result) -> list[str]:
    """Say what is most likely where a class of the user's returns nothing at all of what it acknowledged."""
    found = Counter({(one.store, one.kind): one.count for one in result.violations_by})
    lines = []
    for row in result.by_store:
        if ":" not in row.store or not row.acknowledged or row.verified:
            continue
        line = f"not one of the {row.acknowledged:,} messages that {row.store} acknowledged was read back"
        if found[row.store, Kind.UNDECODABLE.value]:
            lines.append(f"{line} as a message; 'history' has to return a list of soak.stores.Message")
        elif found[row.store, Kind.LOST.value] == row.acknowledged:
            both = "load and verifier are different processes, and a Python dict is not a memory that both can see"
            lines.append(f"{line}; {both}")
    return lines


def self_check_line(result: Result) -> str:
    """Return how many of the errors that the verifier planted itself it detected."""
    if result.canaries is None:
        return "self-check: off (verifier.canary = none)"
    detected, missed = (sum(one.detected for one in result.canaries), sum(one.missed for one in result.canaries))
    early = sum(one.early for one in result.canaries)
    line = f"self-check: {detected:,} of {detected + missed:,} planted errors detected"
    return line + (f", {early:,} reported before they were planted" if early else "")


def store_numbers(row: StoreResult) -> list[str]:
    """Return the numbers under `STORE_COLUMNS`."""
    return [f"{n:,}" for n in (row.acknowledged, row.verified, row.released, row.violations, row.tolerated)]


def worst_recoveries(rows: list[RecoveryResult], most: int) -> list[RecoveryResult]:
    """Return the recoveries that lost most, or else took longest, in the order of time."""
    worst = sorted(rows, key=lambda row: (row.kept, -row.gone_seconds, -(row.read_seconds or 0.0)))[:most]
    return sorted(worst, key=lambda row: row.at_wall_seconds)


def replacement_lines(rows: list[RecoveryResult]) -> list[str]:
    """Say of each failover shown who was primary before and after, and which clients stayed with the old one."""
    shown = {
        row.fault: f"{row.kind} of {row.server}: {row.replaced.sentence}"
        for row in worst_recoveries(rows, RECOVERIES_SHOWN)
        if row.replaced is not None
    }
    return list(shown.values())


def recovery_cells(row: RecoveryResult) -> list[str]:
    """Return the texts under `RECOVERY_COLUMNS`."""
    return [
        row.shown_point,
        "anything" if row.promised_seconds is None else format_seconds(row.promised_seconds),
        f"{row.tolerated:,}",
        row.shown_lost,
        *("-" if seconds is None else format_seconds(seconds) for seconds in (row.read_seconds, row.write_seconds)),
        f"{row.unknown:,}" + (f" ({row.surfaced:,} seen)" if row.surfaced else ""),
    ]


def _stores(rows: list[StoreResult]) -> Table:
    table = Table("store", box=None, padding=(0, 0, 0, 2))
    for column in STORE_COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    shown = short_names([row.store for row in rows])
    for row in rows:
        table.add_row(escape(shown[row.store]), *store_numbers(row))
    return table


def _latencies(rows: list[LatencyResult]) -> list[Table]:
    """Make a table for each store: with the name of a class in it, one table would not fit a terminal."""
    tables = []
    shown = short_names(list(dict.fromkeys(row.store for row in rows)))
    for store, own in groupby(rows, key=lambda row: row.store):
        title = Text(f"  latency of {shown[store]}", style="bold", no_wrap=True, overflow="ellipsis")
        table = Table("operation", box=None, padding=(0, 0, 0, 2), title=title, title_justify="left", title_style="")
        for column in LATENCY_COLUMNS:
            table.add_column(column, justify="right", no_wrap=True)
        for row in own:
            table.add_row(latency_name(row), *latency_cells(row), style="yellow" if row.in_fault else "")
        tables.append(table)
    return tables


def latency_name(row: LatencyResult) -> str:
    return f"{row.operation}, in fault" if row.in_fault else row.operation


def latency_cells(row: LatencyResult) -> list[str]:
    """Return the texts under `LATENCY_COLUMNS`."""
    times = (row.p50_seconds, row.p95_seconds, row.p99_seconds, row.max_seconds)
    return [f"{row.count:,}", f"{row.errors:,}", *map(format_latency, times)]


def _violations(rows: list[KindCount]) -> Table:
    table = Table("store", "kind", box=None, padding=(0, 2))
    table.add_column("violations", justify="right", style="red")
    for row in rows:
        table.add_row(escape(row.store), row.kind, f"{row.count:,}")
    return table


def _recoveries(rows: list[RecoveryResult]) -> list[Table]:
    """Show what each fault took, the worst where there are too many; a table for each store, as of latencies."""
    shown = worst_recoveries(rows, RECOVERIES_SHOWN)
    which = f"{len(rows)} recoveries, the worst {len(shown)}: " if len(shown) < len(rows) else "recovery of "
    tables = []
    names = short_names(list(dict.fromkeys(row.store for row in shown)))
    for store in names:
        title = Text(f"  {which}{names[store]}", style="bold", no_wrap=True, overflow="ellipsis")
        table = Table("fault", box=None, padding=(0, 0, 0, 2), title=title, title_justify="left", title_style="")
        for column in RECOVERY_COLUMNS:
            # A word a line, so that there is room for the fault on 80 columns.
            table.add_column(column.replace(" ", "\n"), justify="right", no_wrap=True)
        for row in (one for one in shown if one.store == store):
            point, *others = recovery_cells(row)
            colour = "red" if not row.kept else ("yellow" if row.is_unread else "green")
            table.add_row(escape(f"{row.kind} of {row.server}"), f"[{colour}]{point}[/]", *others)
        tables.append(table)
    return tables
