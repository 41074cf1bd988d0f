"""How a soak ended: the verifier's result if there is one, and what the daemon has to add to it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from soak.errors import ExitCode
from soak.verifier.result import UNDECIDED, Result, decode_file, write_document

FILE_NAME = "result.json"
SCHEMA = 2
"""Goes up when a reader of an older one could misunderstand a newer one."""

_EXIT_CODES = {
    "pass": ExitCode.PASS,
    "violation": ExitCode.VIOLATION,
    "inconclusive": ExitCode.INCONCLUSIVE,
    "threshold": ExitCode.THRESHOLD,
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that is not as it is by default; passwords are masked."""

    key: str
    value: str
    origin: str


class RunSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What was run, with what, and how to run it again."""

    version: str
    """Of soak."""
    python: str
    platform: str
    seed: str
    """Digits. JavaScript and others would round a number as large."""
    namespace: str
    stores: list[str]
    servers: dict[str, str] = {}
    """By kind: where it is, and which version it says it is."""
    settings: list[Setting] = []
    reproduce: str = ""
    """A command that starts the same run again; passwords have to be added."""


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, or how it stands, as the summary shows it and as `--json` prints it."""

    schema: int = SCHEMA
    run: str
    verdict: str
    """`pass`, `violation`, `inconclusive`, `threshold`, or `undecided` while it runs."""
    exit_code: int
    reasons: list[str]
    data_dir: str
    finished: bool
    """A verifier has given its verdict; otherwise the run can be resumed."""
    child_restarts: dict[str, int] = {}
    server_restarts: dict[str, int] = {}
    faults_scheduled: int = 0
    """Faults of the schedule that began or did not fit."""
    faults_skipped: int = 0
    """Those that did not fit: earlier ones and the time between them left no room."""
    notes: list[str] = []
    result: Result | None = None
    setup: RunSetup | None = None
    """None: only the verifier knew of the run."""

    @property
    def schedule_lines(self) -> list[str]:
        """Say how much of the schedule of faults did not happen; no line where all of it did."""
        return schedule_lines(self.faults_scheduled, self.faults_skipped)


def schedule_lines(scheduled: int, skipped: int) -> list[str]:
    return [f"{skipped:,} of {scheduled:,} scheduled faults did not fit"] if skipped else []


def conclude(
    result: Result | None, problems: list[str], failure: ExitCode = ExitCode.INCONCLUSIVE
) -> tuple[str, ExitCode, list[str]]:
    """Weigh the verifier's verdict against what else went wrong: a violation stays one, a pass does not."""
    reasons = list(result.reasons) if result is not None else []
    verdict = result.verdict if result is not None else "inconclusive"
    if result is None and not problems:
        reasons.append("the verifier gave no verdict in time")
    if verdict == "violation":
        return verdict, ExitCode.VIOLATION, [*reasons, *problems]
    if problems:
        return "inconclusive", failure, [*problems, *reasons]
    # A verdict that a damaged file has altered says nothing.
    return verdict, _EXIT_CODES.get(verdict, ExitCode.INCONCLUSIVE), reasons


def so_far(result: Result | None, problems: list[str]) -> tuple[str, ExitCode, list[str]]:
    """Say how a run stands that nobody has concluded: a violation is one already, and all else is open."""
    reasons = [*problems, *(result.reasons if result is not None else [])]
    if result is not None and result.verdict == "violation":
        return result.verdict, ExitCode.VIOLATION, reasons
    return UNDECIDED, ExitCode.INCONCLUSIVE, reasons


def write(folder: Path, outcome: RunOutcome) -> None:
    """Replace the outcome in a data folder in one step. Raises OSError."""
    write_document(folder / FILE_NAME, outcome, is_last=outcome.finished)


def read(folder: Path) -> RunOutcome | None:
    """Return the outcome in a data folder, if there is one."""
    return decode_file(folder / FILE_NAME, RunOutcome, SCHEMA)
