"""All that a report tells, gathered from the data folder of a run that runs, has ended or was killed."""

from __future__ import annotations

import io
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec
import psutil
from rich.console import Console

from soak import join
from soak.errors import UsageError
from soak.report import outcome as outcomes
from soak.report import series_file
from soak.report.escaping import cut
from soak.report.outcome import Outcome, conclude, so_far
from soak.report.recorded import Recorded, of_folder
from soak.report.series import Series
from soak.report.telling import tell
from soak.verifier import evidence_file
from soak.verifier.evidence_file import UnreadableEvidenceError
from soak.verifier.result import Result, read_so_far

STORIES_MAX = 20
STORY_CHARACTERS_MAX = 8_000
STORY_WIDTH = 100
VERIFIER_NAME = "verifier"
RUNS_NAME = "runs"


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """One violation, and all that `soak explain` tells of it."""

    record: Recorded
    text: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as reports show it."""

    outcome: Outcome
    state: str
    """`finished`, `running`, or `cut off`: killed, or left before its verdict."""
    stories: list[Story]
    """Of some violations, at least one of each kind on each store; the earliest first."""
    series: dict[str, Series]
    written_wall_seconds: float

    @property
    def result(self) -> Result | None:
        return self.outcome.result

    @property
    def ended_wall_seconds(self) -> float:
        """Until when it is known how it went."""
        return self.result.ended_wall_seconds if self.result is not None else self.written_wall_seconds

    @property
    def lasted_seconds(self) -> float:
        if self.result is None:
            return 0.0
        return max(0.0, self.result.ended_wall_seconds - self.result.started_wall_seconds)

    @property
    def stores(self) -> list[str]:
        if self.result is not None:
            return [one.store for one in self.result.by_store]
        return self.outcome.setup.stores if self.outcome.setup is not None else []


def find_folder(data_dir: Path, wanted: str | None) -> Path:
    """Return the folder of a run: a data folder by its path, or a run in the data folder by its name."""
    if wanted is None:
        return data_dir
    if Path(wanted).is_dir():
        return Path(wanted)
    if "/" not in wanted and (data_dir / RUNS_NAME / wanted).is_dir():
        return data_dir / RUNS_NAME / wanted
    if (known := _outcome_in(data_dir)) is not None and known.run == wanted:
        return data_dir
    raise UsageError(f"{wanted} is neither a folder nor a run in {data_dir}; name a data folder, or --data-dir")


def gather(folder: Path, outcome: Outcome | None = None) -> Report:
    """Put together what is known of the run in this folder; the outcome is read from there unless it is given."""
    known = outcome if outcome is not None else _outcome_in(folder)
    if known is None:
        raise UsageError(
            f"there is no run on record in {folder}; name the data folder of one, as in: soak report .soak"
        )
    return Report(
        outcome=known,
        state="finished" if known.finished else ("running" if _is_running(folder, known.run) else "cut off"),
        stories=_stories(folder, known.run),
        series=series_file.read_series(folder / series_file.FILE_NAME, known.run),
        written_wall_seconds=time.time(),
    )


def _outcome_in(folder: Path) -> Outcome | None:
    told, result = outcomes.read(folder), read_so_far(folder / VERIFIER_NAME)
    if told is None or (result is not None and result.run != told.run):
        return _of_verifier_alone(folder, result) if result is not None else told
    if result is None or not _is_newer(result, told.result):
        return told
    # The daemon was killed before it could say what its verifier had said.
    before = told.result.reasons if told.result is not None else []
    problems = [reason for reason in told.reasons if reason not in before]
    verdict, code, reasons = (conclude if result.finished else so_far)(result, problems)
    return msgspec.structs.replace(
        told, verdict=verdict, exit_code=int(code), reasons=reasons, finished=result.finished, result=result
    )


def _is_newer(result: Result, other: Result | None) -> bool:
    if other is None:
        return True
    return (result.finished, result.ended_wall_seconds) > (other.finished, other.ended_wall_seconds)


def _of_verifier_alone(folder: Path, result: Result) -> Outcome:
    verdict, code, reasons = (conclude if result.finished else so_far)(result, [])
    return Outcome(
        run=result.run,
        verdict=verdict,
        exit_code=int(code),
        reasons=reasons,
        data_dir=str(folder),
        finished=result.finished,
        result=result,
    )


def _is_running(folder: Path, run: str) -> bool:
    try:
        info = join.find(folder)
    except UsageError:
        info = None
    if info is not None:
        return info.header.run == run
    try:
        endpoint = msgspec.json.decode((folder / VERIFIER_NAME / "endpoint.json").read_bytes(), type=dict[str, object])
        return "soak" in " ".join(psutil.Process(int(str(endpoint.get("pid", 0)))).cmdline())
    except (OSError, ValueError, msgspec.MsgspecError, psutil.Error):
        return False


def _stories(folder: Path, run: str) -> list[Story]:
    records = [record for record in of_folder(folder / VERIFIER_NAME)[0] if record.violation.run == run]
    return [Story(record=record, text=_told(record)) for record in pick(records, STORIES_MAX)]


def pick(records: Sequence[Recorded], count: int) -> list[Recorded]:
    """Choose violations to tell of: first one of each kind on each store, then a second, and so on."""
    groups: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
    for record in records:
        group = groups[record.violation.store, record.violation.kind]
        if len(group) < count:
            group.append(record)
    turns = (record for turn in zip_longest(*groups.values()) for record in turn if record is not None)
    chosen = [record for record, _ in zip(turns, range(count), strict=False)]
    return sorted(chosen, key=lambda record: record.violation.at_wall_seconds)


def _told(record: Recorded) -> str:
    page = io.StringIO()
    try:
        file = evidence_file.read(record.evidence) if record.evidence is not None else None
        tell(record, file, Console(file=page, highlight=False, width=STORY_WIDTH))
    except UnreadableEvidenceError as error:
        return f"{record.violation.detail}\n{error}"
    text = "\n".join(line.rstrip() for line in page.getvalue().splitlines())
    return cut(text, STORY_CHARACTERS_MAX)
