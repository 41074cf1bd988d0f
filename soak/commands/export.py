"""`soak export`: the history of sessions, for a checker that shares nothing with this one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.edn import jepsen_lines
from soak.report.exporting import Chosen, choose

DESCRIPTION = (
    "Write the history of sessions as a Jepsen/Elle list-append history in EDN. Two kinds of session have one: the\n"
    "first few of each store, which the verifier records (verifier.history_sessions), and every session with a\n"
    "violation that has evidence, from which its history is put together. Where a time is no longer known the\n"
    "operation is made longer, never shorter, so that the history never accuses where nothing was wrong. Losses that\n"
    "the contract tolerates are written as appends of unknown outcome, and reads that may be behind by a bound begin\n"
    "earlier by it. Sessions that were forgotten or may expire, or whose contract promises less than one order, each\n"
    "message once and reads with a bound, are left out, and named. So is what such a history has no word for: what\n"
    "is wrong with a message's content, with a read of the last few, or with a search."
)
EPILOG = """\
examples:
  soak export --jepsen history.edn                          all sessions that have a history
  soak export --jepsen history.edn --session s17-0042-chat
  java -jar elle-cli.jar --model list-append --verbose history.edn"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jepsen", metavar="FILE", required=True, help="file to write; - is standard output")
    parser.add_argument("--session", metavar="NAME", action="append", help="only this session; may be repeated")
    parser.add_argument("--store", metavar="NAME", action="append", help="only of this store; may be repeated")
    parser.add_argument("--run", metavar="ID", help="only of this run (default: the latest in the folder)")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    chosen = choose(data_dir, run=arguments.run, sessions=arguments.session, stores=arguments.store)
    if not chosen.histories:
        reason = f" ({chosen.left_out[0]})" if chosen.left_out else ""
        raise UsageError(
            f"no session with a history in {data_dir}{reason}; only recorded sessions and those with evidence have one"
        )
    _write(arguments.jepsen, chosen)
    for line in chosen.left_out:
        sys.stderr.write(f"soak: left out: {line}\n")
    for line in chosen.not_told:
        sys.stderr.write(f"soak: found, and beyond what a list-append history can show: {line}\n")
    return ExitCode.PASS


def _write(name: str, chosen: Chosen) -> None:
    text = "".join(line + "\n" for line in jepsen_lines(chosen.histories))
    if name == "-":
        sys.stdout.write(text)
        return
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be written ({error.strerror}); name another file") from None
    appends = sum(len(history.appends) for history in chosen.histories)
    reads = sum(len(history.reads) for history in chosen.histories)
    sys.stdout.write(f"{name}: {len(chosen.histories)} sessions, {appends} appends, {reads} reads\n")
