"""Which sessions of a data folder have a history, and which of them are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from soak.checker.case import Case, Participation, SearchRead, TailRead, reads_of
from soak.checker.kinds import Kind
from soak.errors import UsageError
from soak.report.history import NotExpressibleError, SessionHistory, of_cases, of_recording
from soak.report.recorded import verifier_folders
from soak.verifier import evidence_file
from soak.verifier.evidence import FILES_NAME
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.recording import FOLDER_NAME, Recording, read_recording

_INEXPRESSIBLE = frozenset({Kind.CORRUPTED, Kind.WINDOW, Kind.UNFINDABLE})
"""What is wrong within a message, with a read of the last few, or with a search."""


class Chosen(NamedTuple):
    """The histories to be written, and why others are not among them."""

    histories: list[SessionHistory]
    left_out: list[str]
    not_told: list[str]
    """What was found in sessions that are among them, and that such a history has no word for."""


def choose(data_dir: Path, *, run: str | None, sessions: Sequence[str] | None, stores: Sequence[str] | None) -> Chosen:
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
        for (store, session), cases in _cases(folder).items():
            if not _is_wanted(cases[0].run, session, store, run, sessions, stores):
                continue
            kinds[store, session] = {case.found.kind.value for case in cases if not _is_expressible(case)}
            if (store, session) not in histories:
                _add(histories, left_out, store, session, cases=cases)
        if histories and run is None:
            break  # the latest run that has any
    return Chosen(list(histories.values()), list(left_out.values()), _not_told(histories, kinds))


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
