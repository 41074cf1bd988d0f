"""`soak conformance`: what a web service lacks before it can be soaked."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from soak.addresses import addresses
from soak.commands.flags import SERVERS, Flag, add_flags, read_configuration
from soak.conformance import document
from soak.conformance.examination import ConformanceResult, examine
from soak.errors import ExitCode, UsageError
from soak.report.text import plain, print_json
from soak.servers.kinds import HTTP

DESCRIPTION = (
    "Check a memory behind HTTP against the whole contract of the http store, in sessions of\n"
    "its own. Exit code 0 if all is well, 1 if something is wrong, 3 if nobody answers."
)
EPILOG = """\
examples:
  soak conformance --url http://127.0.0.1:8000
  SOAK_SERVERS__HTTP_TOKEN=... soak conformance --url https://chat.staging.example/memory --json
  soak conformance --openapi > memory.openapi.json       the contract itself"""

_MARKS = {"ok": "ok", "wrong": "WRONG", "absent": "absent"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--openapi", action="store_true", help="print the contract as an OpenAPI document instead")
    timeout = Flag("--timeout", "stores.timeout", "TIME", "limit for every single request (default: 5s)")
    add_flags(parser, (*(flag for flag in SERVERS if flag.name == "--url"), timeout))


def execute(arguments: argparse.Namespace) -> ExitCode:
    if arguments.openapi:
        print_json(msgspec.json.encode(document()))
        return ExitCode.PASS
    settings = read_configuration(arguments).settings
    address = addresses(settings).get(HTTP.name)
    if address is None:
        raise UsageError("which service? give its address with --url, or in servers.http")
    findings = asyncio.run(_examined(address, settings.stores.timeout, as_json=arguments.json))
    wrong = sum(1 for finding in findings if finding.outcome == "wrong")
    if arguments.json:
        print_json(msgspec.json.encode(findings))
    else:
        summary = (
            f"{wrong} of {len(findings)} checks found something wrong"
            if wrong
            else "all checks passed; it can be soaked"
        )
        sys.stdout.write(f"\n{summary}\n")
    return ExitCode.VIOLATION if wrong else ExitCode.PASS


async def _examined(address: str, timeout_seconds: float, *, as_json: bool) -> list[ConformanceResult]:
    findings = []
    async for finding in examine(address, timeout_seconds=timeout_seconds):
        findings.append(finding)
        if not as_json:
            sys.stdout.write("\n".join(_lines(finding)) + "\n")
            sys.stdout.flush()
    return findings


def _lines(finding: ConformanceResult) -> list[str]:
    lines = [f"{_MARKS[finding.outcome]:<7} {finding.check}"]
    lines += [f"        {plain(text)}" for text in (finding.found, finding.advice) if text]
    return lines
