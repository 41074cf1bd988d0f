"""All that a report shows, from the data folder of a run that runs, has ended or was killed."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil
from rich.console import Console

from soak import join
from soak.errors import UsageError
from soak.report import outcome as outcomes
from soak.report import series
from soak.report.headline import headline_of_run
from soak.report.outcome import RunOutcome, conclude, so_far
from soak.report.series import Series
from soak.report.story_text import print_story
from soak.report.text import cut
from soak.report.violation_records import ViolationRecord, group_findings, read_folder
from soak.verifier import evidence_file
from soak.verifier.endpoint import FILE_NAME as ENDPOINT_NAME
from soak.verifier.endpoint import read_endpoint
from soak.verifier.evidence_file import EvidenceFile, UnreadableEvidenceError
from soak.verifier.findings import FindingResult
from soak.verifier.result import Result, read_so_far

STORIES_MAX = 20
STORY_CHARACTERS_MAX = 8_000
STORY_WIDTH = 100
VERIFIER_NAME = "verifier"
RUNS_NAME = "runs"


class FindingStory(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, and what `soak explain` says of its clearest example."""

    finding: FindingResult
    text: str
    """Empty: the report holds enough stories already, or the example is not on record any more."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as reports show it."""

    outcome: RunOutcome
    state: str
    """`finished`, `running`, or `cut off`: killed, or left before its verdict."""
    findings: list[FindingStory]
    """One for each bug, the largest first."""
    series: dict[str, Series]
    written_wall_seconds: float

    @property
    def result(self) -> Result | None:
        return self.outcome.result

    @property
    def headline(self) -> str:
        return headline_of_run(self.outcome, [one.finding for one in self.findings], is_running=self.state == "running")

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


def folders_of_runs(data_dir: Path) -> list[Path]:
    """Return the folders that may hold a run: the data folder, then the runs put aside there, the latest first."""
    aside = [path for path in (data_dir / RUNS_NAME).glob("*") if path.is_dir()]
    return [data_dir, *sorted(aside, key=lambda path: path.stat().st_mtime, reverse=True)]


def find_folder(data_dir: Path, wanted: str | None) -> Path:
    """Return the folder of a run: a data folder by its path, or a run in the data folder by its name."""
    if wanted is None:
        return data_dir
    if Path(wanted).is_dir():
        return Path(wanted)
    if "/" not in wanted and (data_dir / RUNS_NAME / wanted).is_dir():
        return data_dir / RUNS_NAME / wanted
    if (known := read_outcome(data_dir)) is not None and known.run == wanted:
        return data_dir
    if Path(wanted).suffix:
        raise UsageError(f"there is no file {wanted}")
    raise UsageError(f"{wanted} is neither a folder nor a run in {data_dir}; 'soak runs' lists the runs of a folder")


def gather(folder: Path, outcome: RunOutcome | None = None) -> Report:
    """Put together what is known of the run in this folder; the outcome is read from there unless it is given."""
    known = outcome if outcome is not None else read_outcome(folder)
    if known is None:
        raise UsageError(
            f"there is no run on record in {folder}; name the data folder of one, .soak or what --data-dir said"
        )
    findings = _findings(folder, known.run, known.result)
    if known.result is not None:
        # The journal may know of more than the result of a run that was killed: every format says the same.
        result = msgspec.structs.replace(known.result, findings=[one.finding for one in findings])
        known = msgspec.structs.replace(known, result=result)
    return Report(
        outcome=known,
        state="finished" if known.finished else ("running" if is_running(folder, known.run) else "cut off"),
        findings=findings,
        series=series.read_series(folder / series.FILE_NAME, known.run),
        written_wall_seconds=time.time(),
    )


def read_outcome(folder: Path) -> RunOutcome | None:
    """Return how the run in this folder ended, or its last known state."""
    outcome, result = outcomes.read(folder), read_so_far(folder / VERIFIER_NAME)
    if outcome is None or (result is not None and result.run != outcome.run):
        return _of_verifier_alone(folder, result) if result is not None else outcome
    if result is None or not _is_newer(result, outcome.result):
        return outcome
    # The daemon was killed before it could say what its verifier had said.
    before = outcome.result.reasons if outcome.result is not None else []
    problems = [reason for reason in outcome.reasons if reason not in before]
    verdict, code, reasons = (conclude if result.finished else so_far)(result, problems)
    return msgspec.structs.replace(
        outcome, verdict=verdict, exit_code=int(code), reasons=reasons, finished=result.finished, result=result
    )


def _is_newer(result: Result, other: Result | None) -> bool:
    if other is None:
        return True
    return (result.finished, result.ended_wall_seconds) > (other.finished, other.ended_wall_seconds)


def _of_verifier_alone(folder: Path, result: Result) -> RunOutcome:
    verdict, code, reasons = (conclude if result.finished else so_far)(result, [])
    return RunOutcome(
        run=result.run,
        verdict=verdict,
        exit_code=int(code),
        reasons=reasons,
        data_dir=str(folder),
        finished=result.finished,
        result=result,
    )


def is_running(folder: Path, run: str) -> bool:
    try:
        info = join.find(folder)
    except UsageError:
        info = None
    if info is not None:
        return info.header.run == run
    endpoint = read_endpoint(folder / VERIFIER_NAME / ENDPOINT_NAME)
    try:
        return endpoint is not None and "soak" in " ".join(psutil.Process(endpoint.pid).cmdline())
    except psutil.Error:
        return False


def _findings(folder: Path, run: str, result: Result | None) -> list[FindingStory]:
    records = [record for record in read_folder(folder / VERIFIER_NAME)[0] if record.violation.run == run]
    found = group_findings(records, is_everything=True)
    counted = result.findings if result is not None else []
    if sum(one.count for one in counted) > sum(one.count for one in found):
        found = counted  # the journal was thinned out, or is gone
    by_id = {record.violation.id: record for record in records}
    examples = [by_id.get(one.example.id) for one in found]
    return [
        FindingStory(finding=one, text=_told(example, records) if example is not None and at < STORIES_MAX else "")
        for at, (one, example) in enumerate(zip(found, examples, strict=True))
    ]


def _told(record: ViolationRecord, others: Sequence[ViolationRecord]) -> str:
    page = io.StringIO()
    file: EvidenceFile | None = None
    try:
        file = evidence_file.read(record.evidence) if record.evidence is not None else None
        print_story(record, file, Console(file=page, highlight=False, width=STORY_WIDTH), others)
    except UnreadableEvidenceError as error:
        return f"{record.violation.detail}\n{error}"
    except Exception:  # an altered file may say anything
        if file is None or file.is_sealed:
            raise
        return f"{record.violation.detail}\n{file.path} was altered after it was written, and makes no sense"
    text = "\n".join(line.rstrip() for line in page.getvalue().splitlines())
    return cut(text, STORY_CHARACTERS_MAX)
