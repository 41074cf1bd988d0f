"""`soak violations`: the findings, one for each bug, and on request the single violations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from soak.checker.kinds import Kind
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.text import OutputConsole, clock, parse_moment, plain, print_json, table_lines
from soak.report.violation_records import ViolationRecord, finding_of, group_findings, read_violations
from soak.suggestion import did_you_mean
from soak.verifier.findings import FindingResult

DESCRIPTION = (
    "List the findings of the run in the data folder, running or ended, and of the runs put aside there. Violations\n"
    "of the same store, kind and probable cause are one finding; --each lists them one by one.\n"
    "An open violation still holds; in a healed one the missing messages are back."
)
EPILOG = """\
examples:
  soak violations
  soak violations --open --kind lost --since 2h
  soak violations --finding ID                  the single violations of one finding
  soak violations --json | jq '.[].headline'
  soak explain ID                               the whole story of a finding or a violation"""

_HEADS = ("id", "found", "store", "kind", "state", "cause", "message")
_STATE_STYLES = {"open": "bold red", "healed": "green"}
LIMIT = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = ", ".join(kind.value for kind in Kind)
    parser.add_argument("--store", metavar="NAME", action="append", help="only of this store; may be repeated")
    parser.add_argument("--kind", metavar="KIND", action="append", help=f"only of this kind: {kinds}; may be repeated")
    parser.add_argument("--run", metavar="ID", help="only of this run")
    parser.add_argument("--each", action="store_true", help="list single violations in place of findings")
    parser.add_argument("--finding", metavar="ID", help="list the single violations of this finding")
    parser.add_argument("--since", metavar="WHEN", help="found since: 2h (ago), or a time like 2026-01-31T12:00")
    parser.add_argument("--until", metavar="WHEN", help="found until")
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--open", action="store_true", help="only open ones")
    state.add_argument("--healed", action="store_true", help="only healed ones")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=None,
        help=f"the first N findings, or newest N violations (default: {LIMIT}; --json: all)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    unknown = [kind for kind in arguments.kind or () if kind not in {known.value for known in Kind}]
    if unknown:
        listed = [kind.value for kind in Kind]
        hint = did_you_mean(unknown[0], listed, f"choose from {', '.join(listed)}")
        raise UsageError(f"--kind {unknown[0]}: there is no such kind; {hint}")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit {arguments.limit}: should be at least 1")
    since = parse_moment(arguments.since, "--since") if arguments.since is not None else None
    until = parse_moment(arguments.until, "--until") if arguments.until is not None else None
    data_dir = read_configuration(arguments).settings.data_dir
    records = read_violations(data_dir)
    found = [record for record in records.found if _is_wanted(record, arguments, since, until)]
    if not found and not arguments.json:
        sys.stdout.write(f"{_nothing(records.found, arguments.store)} in {data_dir}\n")
    elif arguments.each or arguments.finding:
        _list_each(found, arguments)
    else:
        _list_findings(found, arguments, is_everything=len(found) == len(records.found))
    if records.unlisted:
        sys.stderr.write(
            f"soak: {records.unlisted:,} further violations were counted and are not listed; the first are kept, and "
            "those with evidence\n"
        )
    for journal, count in records.unreadable.items():
        sys.stderr.write(f"soak: {count} lines of {journal} cannot be read: damaged, or written by an older soak\n")
    return ExitCode.PASS


def _list_each(found: list[ViolationRecord], arguments: argparse.Namespace) -> None:
    limit = arguments.limit or (len(found) if arguments.json else LIMIT)
    shown = found[-limit:] if limit else []
    if arguments.json:
        print_json(msgspec.json.encode([record.as_dict() for record in shown]))
    else:
        _print_listing(shown, len(found) - len(shown), OutputConsole())


def _list_findings(found: list[ViolationRecord], arguments: argparse.Namespace, *, is_everything: bool) -> None:
    findings = group_findings(found, is_everything=is_everything)
    shown = findings[: arguments.limit or (len(findings) if arguments.json else LIMIT)]
    if arguments.json:
        print_json(msgspec.json.encode(shown))
    else:
        _print_findings(shown, len(findings) - len(shown), OutputConsole())


def _nothing(on_record: Sequence[ViolationRecord], asked: Sequence[str] | None) -> str:
    if not on_record:
        return "no violations on record"
    stores = sorted({record.violation.store for record in on_record})
    if asked and not set(asked) & set(stores):
        return f"all {len(on_record):,} violations are on {' and '.join(stores)}, none on {' or '.join(asked)},"
    return f"no violation fits, of {len(on_record):,} on record"


def _is_wanted(
    record: ViolationRecord, arguments: argparse.Namespace, since: float | None, until: float | None
) -> bool:
    violation = record.violation
    at = violation.at_wall_seconds
    return (
        (not arguments.store or violation.store in arguments.store)
        and (not arguments.kind or violation.kind in arguments.kind)
        and (not arguments.run or violation.run == arguments.run)
        and (not arguments.finding or finding_of(record).startswith(arguments.finding.strip().lower()))
        and (since is None or at >= since)
        and (until is None or at <= until)
        and (not arguments.open or record.state == "open")
        and (not arguments.healed or record.state == "healed")
    )


def _print_findings(findings: list[FindingResult], left_out: int, console: Console) -> None:
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


def _print_listing(records: list[ViolationRecord], left_out: int, console: Console) -> None:
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


def _row(record: ViolationRecord) -> tuple[str, ...]:
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


def _print_narrow(records: list[ViolationRecord], console: Console) -> None:
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
