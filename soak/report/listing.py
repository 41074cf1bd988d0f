"""A list of violations for the person at the terminal."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from soak.report.moment import clock
from soak.report.recorded import Recorded
from soak.report.table import plain, table_lines
from soak.verifier.findings import FindingResult

_HEADS = ("id", "found", "store", "kind", "state", "cause", "message")
_STATE_STYLES = {"open": "bold red", "healed": "green"}


def print_findings(findings: list[FindingResult], left_out: int, console: Console) -> None:
    """Print the findings, each with its numbers, its example, and how to learn more."""
    for finding in findings:
        head = Text.assemble((finding.id, "cyan"), "  ", (finding.kind, "bold red"), "  ", plain(finding.headline))
        console.print(head, soft_wrap=not console.is_terminal)
        for line in _finding_lines(finding):
            console.print(Text(f"{' ' * len(finding.id)}  {line}", style="dim"), soft_wrap=not console.is_terminal)
    if left_out:
        console.print(Text(f"{left_out:,} further findings are not shown; --limit shows more", style="dim"))
    hint = "'soak explain ID' explains a finding or a violation; 'soak violations --finding ID' lists its violations"
    console.print(Text(hint, style="dim"), soft_wrap=True)


def _finding_lines(finding: FindingResult) -> tuple[str, ...]:
    first, last = clock(finding.first_wall_seconds), clock(finding.last_wall_seconds)
    when = f"at {first}" if first == last else f"first {first}, last {last}"
    example = finding.example
    evidence = "" if example.has_evidence else ", without evidence"
    return (
        f"{when}; {finding.open:,} open, {finding.healed:,} healed",
        f"example {example.id}: {plain(example.message)}{evidence}",
    )


def print_listing(records: list[Recorded], left_out: int, console: Console) -> None:
    """Print the violations, the newest last, and how many there are besides."""
    rows = [_row(record) for record in records]
    lines = table_lines(_HEADS, rows)
    if console.is_terminal and max(map(cell_len, lines)) > console.width:
        _print_narrow(records, console)
    else:
        console.print(Text(lines[0], style="bold"), soft_wrap=True)
        for row, line in zip(rows, lines[1:], strict=True):
            console.print(_coloured(line, row), soft_wrap=True)
    if left_out:
        console.print(Text(f"{left_out:,} earlier ones are not shown; --limit shows more", style="dim"), soft_wrap=True)


def _row(record: Recorded) -> tuple[str, ...]:
    violation = record.violation
    found = clock(violation.at_wall_seconds)
    message = plain(violation.message)
    return (violation.id, found, violation.store, violation.kind, record.state, violation.cause, message)


def _coloured(line: str, row: tuple[str, ...]) -> Text:
    text = Text(line)
    text.stylize("cyan", 0, len(row[0]))
    at = line.index(f"  {row[4]}", line.index(row[3], len(row[0]))) + 2
    text.stylize(_STATE_STYLES.get(row[4], ""), at, at + len(row[4]))
    return text


def _print_narrow(records: list[Recorded], console: Console) -> None:
    """Give each violation lines of its own, where a table would have to cut what is there to be copied."""
    for record in records:
        violation = record.violation
        state = (record.state, _STATE_STYLES.get(record.state, ""))
        console.print(Text.assemble((violation.id, "cyan"), "  ", violation.kind, "  ", state))
        for line in (
            plain(violation.message),
            f"{violation.store}, {clock(violation.at_wall_seconds)}, {violation.cause}",
        ):
            console.print(Text(f"  {line}", style="dim", overflow="fold"))
