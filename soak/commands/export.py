"""`soak export`: the history of sessions, for a checker that shares nothing with this one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from soak.checker.case import Case, Participation, SearchRead, TailRead, reads_of
from soak.checker.kinds import Kind
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.edn import jepsen_lines
from soak.report.history import NotExpressibleError, SessionHistory, of_cases, of_recording
from soak.report.violation_records import shard_folders, verifier_folders
from soak.verifier import evidence_file
from soak.verifier.evidence import FILES_NAME
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.recording import FOLDER_NAME, Recording, read_recording

DESCRIPTION = (
    "Write the history of sessions as a Jepsen/Elle list-append history in EDN. Two kinds of session have one: the\n"
    "first few of each store, which the verifier records (verifier.history_sessions), and every session with a\n"
    "violation that has evidence, from which its history is put together. Where a time is no longer known the\n"
    "operation is made longer, never shorter, so that the history never accuses where nothing was wrong. Losses that\n"
    "the contract tolerates are written as appends of unknown outcome, and reads that may be behind by a bound begin\n"
    "earlier by it; those in the shadow of a fault (R12) begin before everything. Sessions that were forgotten or may\n"
    "expire, or whose contract promises less than one order, each message once and reads with a bound, are left out,\n"
    "and named. So is what such a history has no word for: what is wrong with a message's content, with a read of the\n"
    "last few, or with a search."
)
EPILOG = """\
examples:
  soak export --jepsen history.edn                          all sessions that have a history
  soak export --jepsen history.edn --session s17-0042-chat
  java -jar elle-cli.jar --model list-append --verbose history.edn"""

_INEXPRESSIBLE = frozenset({Kind.CORRUPTED, Kind.WINDOW, Kind.UNFINDABLE})
"""What is wrong within a message, with a read of the last few, or with a search."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jepsen", metavar="FILE", required=True, help="file to write; - is standard output")
    parser.add_argument("--session", metavar="NAME", action="append", help="only this session; may be repeated")
    parser.add_argument("--store", metavar="NAME", action="append", help="only of this store; may be repeated")
    parser.add_argument("--run", metavar="ID", help="only of this run (default: the latest in the folder)")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    chosen = choose_histories(data_dir, run=arguments.run, sessions=arguments.session, stores=arguments.store)
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


def _write(name: str, chosen: ChosenHistories) -> None:
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


class ChosenHistories(NamedTuple):
    """The histories to be written, and why others are not among them."""

    histories: list[SessionHistory]
    left_out: list[str]
    not_told: list[str]
    """What was found in sessions that are among them, and that such a history has no word for."""


def choose_histories(
    data_dir: Path, *, run: str | None, sessions: Sequence[str] | None, stores: Sequence[str] | None
) -> ChosenHistories:
    """Return the histories that are asked for; of one run, since a session's name is its own only there."""
    if not data_dir.is_dir():
        raise UsageError(f"there is no data folder {data_dir}; name the one of the run with --data-dir")
    histories: dict[tuple[str, str], SessionHistory] = {}
    left_out: dict[tuple[str, str], str] = {}
    kinds: dict[tuple[str, str], set[str]] = {}
    for folder in verifier_folders(data_dir):
        for recording in _recordings(folder):
            if _is_wanted(recording.run, recording.session, recording.store, run, sessions, stores):
                _add(histories, left_out, recording.store, recording.session, recording=recording)
        for (store, session), cases in (one for part in shard_folders(folder) for one in _cases(part).items()):
            if not _is_wanted(cases[0].run, session, store, run, sessions, stores):
                continue
            kinds[store, session] = {case.found.kind.value for case in cases if not _is_expressible(case)}
            if (store, session) not in histories:
                _add(histories, left_out, store, session, cases=cases)
        if histories and run is None:
            break  # the latest run that has any
    return ChosenHistories(list(histories.values()), list(left_out.values()), _not_told(histories, kinds))


def _is_expressible(case: Case) -> bool:
    """Whether a list-append history can show it: not what is wrong within a message, or with a read of a few."""
    basis = case.basis
    is_of_a_part = isinstance(basis, TailRead | SearchRead) or (
        isinstance(basis, Participation) and basis.last is not None
    )
    return not is_of_a_part and case.found.kind not in _INEXPRESSIBLE


def _not_told(histories: dict[tuple[str, str], SessionHistory], kinds: dict[tuple[str, str], set[str]]) -> list[str]:
    return [
        f"{session}: {', '.join(sorted(kinds[store, session]))}"
        for store, session in histories
        if kinds.get((store, session))
    ]


def _is_wanted(
    of_run: str, session: str, store: str, run: str | None, sessions: Sequence[str] | None, stores: Sequence[str] | None
) -> bool:
    return (run is None or of_run == run) and (not sessions or session in sessions) and (not stores or store in stores)


def _add(
    histories: dict[tuple[str, str], SessionHistory],
    left_out: dict[tuple[str, str], str],
    store: str,
    session: str,
    *,
    recording: Recording | None = None,
    cases: list[Case] | None = None,
) -> None:
    if (store, session) in left_out:
        return  # what one source cannot tell the other must not tell by half
    try:
        if recording is not None:
            histories[store, session] = of_recording(recording)
        elif cases:
            histories[store, session] = of_cases(session, cases)
    except NotExpressibleError as error:
        left_out[store, session] = str(error)


def _cases(folder: Path) -> dict[tuple[str, str], list[Case]]:
    """Return the cases of each session with evidence, in the order of time."""
    cases: dict[tuple[str, str], list[Case]] = {}
    for path in sorted((folder / FILES_NAME).glob("*.json")):
        try:
            case = evidence_file.read(path).case
        except UnreadableEvidenceError:
            continue  # `soak replay` names it
        if case is not None:
            cases.setdefault((case.store, case.session), []).append(case)
    for of_session in cases.values():
        of_session.sort(key=lambda case: max(read.returned for _, read in reads_of(case)))
    return cases


def _recordings(folder: Path) -> list[Recording]:
    found = [read_recording(path) for path in sorted((folder / FOLDER_NAME).glob("*.jsonl"))]
    return [recording for recording in found if recording is not None]
