"""Which sessions of a data folder have a history, and which of them are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from soak.errors import UsageError
from soak.model.case import Case, reads_of
from soak.report.history import NotExpressibleError, SessionHistory, of_cases, of_recording
from soak.report.recorded import verifier_folders
from soak.verifier import evidence_file
from soak.verifier.evidence import FILES_NAME
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.recording import FOLDER_NAME, Recording, read_recording


class Chosen(NamedTuple):
    """The histories to be written, and why others are not among them."""

    histories: list[SessionHistory]
    left_out: list[str]


def choose(data_dir: Path, *, run: str | None, sessions: Sequence[str] | None, stores: Sequence[str] | None) -> Chosen:
    """Return the histories that are asked for; of one run, since a session's name is its own only there."""
    if not data_dir.is_dir():
        raise UsageError(f"there is no data folder {data_dir}; name the one of the run with --data-dir")
    histories: dict[tuple[str, str], SessionHistory] = {}
    left_out: list[str] = []
    for folder in verifier_folders(data_dir):
        for recording in _recordings(folder):
            if _is_wanted(recording.run, recording.session, recording.store, run, sessions, stores):
                _add(histories, left_out, recording.store, recording.session, recording=recording)
        for (store, session), cases in _cases(folder).items():
            if _is_wanted(cases[0].run, session, store, run, sessions, stores) and (store, session) not in histories:
                _add(histories, left_out, store, session, cases=cases)
        if histories and run is None:
            break  # the latest run that has any
    return Chosen(list(histories.values()), list(dict.fromkeys(left_out)))


def _is_wanted(
    of_run: str, session: str, store: str, run: str | None, sessions: Sequence[str] | None, stores: Sequence[str] | None
) -> bool:
    return (run is None or of_run == run) and (not sessions or session in sessions) and (not stores or store in stores)


def _add(
    histories: dict[tuple[str, str], SessionHistory],
    left_out: list[str],
    store: str,
    session: str,
    *,
    recording: Recording | None = None,
    cases: list[Case] | None = None,
) -> None:
    try:
        if recording is not None:
            histories[store, session] = of_recording(recording)
        elif cases:
            histories[store, session] = of_cases(session, cases)
    except NotExpressibleError as error:
        left_out.append(str(error))


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
