"""`soak replay`: reach a verdict again from its evidence alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from soak.checker.case import CannotDeriveError, Case, replay
from soak.commands.flags import DATA_DIR, add_flags, read_configuration
from soak.errors import ExitCode, UsageError
from soak.report.text import plain, print_json
from soak.report.violation_records import resolve
from soak.verifier import evidence_file
from soak.verifier.evidence import FILES_NAME
from soak.verifier.evidence_file import EvidenceFile, UnreadableEvidenceError

DESCRIPTION = (
    "Derive violations again from their evidence: the ledger's records, the reads, the contract and the fault windows\n"
    "in it, with no server running. Exit 0 if every verdict is the same, 1 if one differs, 2 if a file cannot be\n"
    "replayed: damaged, altered, of an older format, or too large to have been kept whole."
)
EPILOG = """\
examples:
  soak replay .soak/verifier/evidence           every file in the folder
  soak replay lost.1f0c2a7be9d4.json
  soak replay 1f0c2a7be9d4                      by the id of the violation"""

MISSING_SHOWN_MAX = 3


class Answer(NamedTuple):
    """What a replay of one file gave."""

    evidence: str
    verdict: str
    """`same`, `differs` or `unreadable`."""
    text: str
    derived: list[dict[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "evidence",
        metavar="EVIDENCE",
        nargs="+",
        help="file or folder of evidence, or the id of a finding or violation",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    add_flags(parser, (DATA_DIR,))


def execute(arguments: argparse.Namespace) -> ExitCode:
    data_dir = read_configuration(arguments).settings.data_dir
    answers = [_replay(path) for word in arguments.evidence for path in _files(word, data_dir)]
    if arguments.json:
        print_json(msgspec.json.encode([answer._asdict() for answer in answers]))
    else:
        for answer in answers:
            stream = sys.stderr if answer.verdict == "unreadable" else sys.stdout
            stream.write(f"{'soak: ' if answer.verdict == 'unreadable' else ''}{plain(answer.text)}\n")
    verdicts = {answer.verdict for answer in answers}
    if "differs" in verdicts:
        return ExitCode.VIOLATION
    return ExitCode.USAGE if "unreadable" in verdicts else ExitCode.PASS


def _files(word: str, data_dir: Path) -> list[Path]:
    path = Path(word)
    if path.is_dir():
        # A data folder holds other files of JSON beside the folders of evidence in it.
        files = sorted(path.glob(f"**/{FILES_NAME}/*.json")) or sorted(path.glob("*.json"))
        if not files:
            raise UsageError(f"{path} holds no evidence; name a file or folder of it, or the id of a violation")
        return files
    if path.exists() or path.suffix == ".json" or "/" in word:
        return [path]
    record, _ = resolve(data_dir, word)
    if record.evidence is None:
        raise UsageError(f"violation {record.violation.id} has no evidence file; it is only in the journal")
    return [record.evidence]


def _replay(path: Path) -> Answer:
    try:
        file, case = _read(path)
        again = replay(case)
    except CannotDeriveError as error:
        return Answer(str(path), "unreadable", f"{path} cannot be replayed: {error}", [])
    except UnreadableEvidenceError as error:
        return Answer(str(path), "unreadable", str(error), [])
    except Exception as error:  # noqa: BLE001  an altered file may say anything
        what = f"{type(error).__name__}: {error}"
        return Answer(str(path), "unreadable", f"{path} is damaged: its case cannot be judged ({what})", [])
    derived = [{"kind": one.kind.value, "message": one.message, "detail": one.detail} for one in again.derived]
    found = case.found
    count = len(found.messages(case.session))
    what = f"{found.kind.value} {found.first}" + (f" and {count - 1} more" if count > 1 else "")
    if not again.is_same:
        return Answer(
            str(path), "differs", f"differs  {what}: {_difference(again.missing, again.other_detail)}", derived
        )
    if not file.is_sealed or file.story.get("kind") != found.kind.value or file.story.get("message") != found.first:
        text = f"{path} was altered after it was written: its seal does not fit, though it still derives {what}"
        return Answer(str(path), "unreadable", text, derived)
    return Answer(str(path), "same", f"same     {what}: {found.detail}", derived)


def _read(path: Path) -> tuple[EvidenceFile, Case]:
    file = evidence_file.read(path)
    if file.case is None:
        raise UnreadableEvidenceError(f"{path} cannot be replayed: {file.story.get('case_missing') or 'no case'}")
    return file, file.case


def _difference(missing: list[str], other_detail: str) -> str:
    if not missing:
        return f"now it says {other_detail!r}"
    names = ", ".join(missing[:MISSING_SHOWN_MAX]) + (" …" if len(missing) > MISSING_SHOWN_MAX else "")
    return f"not derived again: {names}"
