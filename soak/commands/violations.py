"""`soak violations`: the findings, one for each bug, and on request the single violations."""

from __future__ import annotations

import argparse
import sys

import msgspec

from soak.checker.kinds import Kind
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.findings import finding_of, group
from soak.report.listing import print_findings, print_listing
from soak.report.moment import parse_moment
from soak.report.page import Page
from soak.report.recorded import Recorded, recorded
from soak.report.table import print_json

DESCRIPTION = (
    "List the findings of the run in the data folder, running or ended, and of the runs put aside there. Violations\n"
    "of the same store, kind and probable cause are one finding; --each lists them one by one.\n"
    "An open violation still stands; a healed one is over: what had been missing is there again."
)
EPILOG = """\
examples:
  soak violations
  soak violations --open --kind lost --since 2h
  soak violations --finding ID                  the single violations of one finding
  soak violations --json | jq '.[].headline'
  soak explain ID                               the whole story of a finding or a violation"""

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
    state.add_argument("--open", action="store_true", help="only those that still stand")
    state.add_argument("--healed", action="store_true", help="only those that are over")
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
        raise UsageError(f"--kind {unknown[0]}: choose from {', '.join(kind.value for kind in Kind)}")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit {arguments.limit}: should be at least 1")
    since = parse_moment(arguments.since, "--since") if arguments.since is not None else None
    until = parse_moment(arguments.until, "--until") if arguments.until is not None else None
    data_dir = read_configuration(arguments).settings.data_dir
    records = recorded(data_dir)
    found = [record for record in records.found if _is_wanted(record, arguments, since, until)]
    if not found and not arguments.json:
        sys.stdout.write(f"{_nothing(len(records.found))} in {data_dir}\n")
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


def _list_each(found: list[Recorded], arguments: argparse.Namespace) -> None:
    limit = arguments.limit or (len(found) if arguments.json else LIMIT)
    shown = found[-limit:] if limit else []
    if arguments.json:
        print_json(msgspec.json.encode([record.as_dict() for record in shown]))
    else:
        print_listing(shown, len(found) - len(shown), Page())


def _list_findings(found: list[Recorded], arguments: argparse.Namespace, *, is_everything: bool) -> None:
    findings = group(found, is_everything=is_everything)
    shown = findings[: arguments.limit or (len(findings) if arguments.json else LIMIT)]
    if arguments.json:
        print_json(msgspec.json.encode(shown))
    else:
        print_findings(shown, len(findings) - len(shown), Page())


def _nothing(on_record: int) -> str:
    return f"none of the {on_record:,} violations on record fits" if on_record else "no violations on record"


def _is_wanted(record: Recorded, arguments: argparse.Namespace, since: float | None, until: float | None) -> bool:
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
