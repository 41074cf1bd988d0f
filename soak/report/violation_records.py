"""The violations on record in a data folder, one by one and grouped into findings.

They are those of the present run, and of earlier runs that were put aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from soak.errors import UsageError
from soak.ledger.shards import FOLDER_PREFIX
from soak.verifier.evidence import FILES_NAME, JOURNAL_NAME
from soak.verifier.findings import FindingResult, ViolationGroups, finding_id
from soak.verifier.journal import Change, Violation, decode_line, read_head
from soak.verifier.result import NewerResultError, Result, read_so_far

ID_CHARACTERS_MIN = 4


class ViolationRecord(msgspec.Struct, kw_only=True):
    """One violation as the journal has it, with what became of it since."""

    violation: Violation
    folder: Path
    """The verifier's folder that holds it."""
    state: str
    """`open` or `healed`."""
    changed_wall_seconds: float | None = None
    """When it was last over, or there again."""

    @property
    def run_folder(self) -> Path:
        """That of the first verifier of the run."""
        return self.folder.parent if self.folder.name.startswith(FOLDER_PREFIX) else self.folder

    @property
    def evidence(self) -> Path | None:
        """The evidence file, if there is one."""
        named = self.violation.evidence
        path = self.folder / FILES_NAME / f"{self.violation.kind}.{named}.json"
        return path if named and path.exists() else None

    def as_dict(self) -> dict[str, object]:
        """Return it for machines; the keys are part of the interface."""
        violation = self.violation
        return {
            "id": violation.id,
            "run": violation.run,
            "store": violation.store,
            "kind": violation.kind,
            "state": self.state,
            "session": violation.session,
            "message": violation.message,
            "detail": violation.detail,
            "cause": violation.cause,
            "found_at_wall_seconds": violation.at_wall_seconds,
            "changed_at_wall_seconds": self.changed_wall_seconds,
            "evidence": None if self.evidence is None else str(self.evidence),
        }


class Records(NamedTuple):
    """All violations on record, the oldest first, and what could not be read."""

    found: list[ViolationRecord]
    unreadable: dict[Path, int]
    """Lines that were damaged, or written by an older soak, by journal."""
    unlisted: int = 0
    """Violations that were found, too, and that a journal lists no longer because there were too many."""


def read_violations(data_dir: Path) -> Records:
    """Return the violations on record in a data folder."""
    if not data_dir.is_dir():
        raise UsageError(f"there is no data folder {data_dir}; name the one of the run with --data-dir")
    found: list[ViolationRecord] = []
    unreadable: dict[Path, int] = {}
    unlisted = 0
    for folder in verifier_folders(data_dir):
        records, count, thinned = read_folder(folder)
        found += records
        unlisted += thinned
        if count:
            unreadable[folder / JOURNAL_NAME] = count
    return Records(sorted(found, key=lambda record: record.violation.at_wall_seconds), unreadable, unlisted)


def verifier_folders(data_dir: Path) -> list[Path]:
    """Return where verifiers have kept their records: the present run first, then those put aside, the latest first."""
    aside = sorted((data_dir / "runs").glob("*/verifier*"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [data_dir / "verifier", *aside]


def shard_folders(folder: Path) -> list[Path]:
    """Return the folders of all verifiers that shared a run: that of the first, and those in it."""
    return [folder, *sorted(folder.glob(f"{FOLDER_PREFIX}*"))]


def read_folder(folder: Path) -> tuple[list[ViolationRecord], int, int]:
    """Return the violations of a run's verifiers, how many lines cannot be read, and how many are not listed."""
    records: list[ViolationRecord] = []
    unreadable = unlisted = 0
    for one in shard_folders(folder):
        found, damaged, thinned = _read_one(one)
        records, unreadable, unlisted = records + found, unreadable + damaged, unlisted + thinned
    return records, unreadable, unlisted


def _read_one(folder: Path) -> tuple[list[ViolationRecord], int, int]:
    found: dict[str, ViolationRecord] = {}
    unreadable = unlisted = 0
    try:
        with (folder / JOURNAL_NAME).open("rb") as file:
            head = read_head(file)
            unlisted = 0 if head is None else head.violations
            for text in file:
                if not text.endswith(b"\n"):
                    break  # it is being written
                unreadable += int(not take_line(found, text, folder))
    except FileNotFoundError:
        return [], 0, 0
    except OSError as error:
        raise UsageError(f"{folder / JOURNAL_NAME} cannot be read ({error.strerror})") from error
    return list(found.values()), unreadable, unlisted


def take_line(found: dict[str, ViolationRecord], text: bytes, folder: Path) -> bool:
    """Take up a line of a journal: a violation, or a change of one; returns whether it could be read."""
    line = decode_line(text)
    if isinstance(line, Violation):
        state = "healed" if line.healed else "open"
        found.setdefault(line.id, ViolationRecord(violation=line, folder=folder, state=state))
    elif isinstance(line, Change) and (record := found.get(line.id)) is not None:
        record.state = "healed" if line.event == "healed" else "open"
        record.changed_wall_seconds = line.at_wall_seconds
    return line is not None


def finding_of(record: ViolationRecord) -> str:
    """Return the id of the finding that a violation belongs to."""
    violation = record.violation
    return finding_id(violation.run, violation.store, violation.kind, violation.cause)


def group_findings(records: Sequence[ViolationRecord], *, is_everything: bool = False) -> list[FindingResult]:
    """Return violations as findings, run by run, the largest of a run first.

    Where the records are everything that a journal lists, and the verifier has counted more, its numbers count.
    """
    found: list[FindingResult] = []
    for folder, run in dict.fromkeys((record.run_folder, record.violation.run) for record in records):
        of_run = [record for record in records if (record.run_folder, record.violation.run) == (folder, run)]
        found += _of_run(of_run, _result_in(folder, run), is_everything=is_everything)
    return found


def _of_run(records: list[ViolationRecord], result: Result | None, *, is_everything: bool) -> list[FindingResult]:
    acknowledged = {} if result is None else {one.store: one.acknowledged for one in result.by_store}
    groups = ViolationGroups.of((record.violation, record.state == "open") for record in records)
    derived = groups.listed(acknowledged)
    counted = {one.id: one for one in result.findings} if result is not None and is_everything else {}
    return [counted[one.id] if one.id in counted and counted[one.id].count > one.count else one for one in derived]


def _result_in(folder: Path, run: str) -> Result | None:
    try:
        result = read_so_far(folder)
    except NewerResultError:
        return None  # asking for the result itself says what is wrong
    return result if result is not None and result.run == run else None


def resolve(data_dir: Path, identity: str) -> tuple[ViolationRecord, FindingResult | None]:
    """Return the violation with this id, or a finding with its clearest example; the beginning of an id will do.

    So will the name of a message: of the first violation it was in.
    """
    wanted = identity.strip().lower()
    if "/" in wanted:
        every = read_violations(data_dir).found
        if (named := next((one for one in every if one.violation.message == identity.strip()), None)) is not None:
            return named, None
    if len(wanted) < ID_CHARACTERS_MIN:
        raise UsageError(f"{identity!r} is too short for the id of a violation; 'soak violations' lists them")
    every = read_violations(data_dir).found
    violations = {record.violation.id: record for record in every if record.violation.id.startswith(wanted)}
    findings = {identity for identity in map(finding_of, every) if identity.startswith(wanted)}
    if not violations and not findings:
        raise UsageError(f"no violation {identity} is on record in {data_dir}; 'soak violations' lists those that are")
    if len(violations) + len(findings) > 1:
        many = len(violations) + len(findings)
        raise UsageError(f"{identity} begins the ids of {many} violations or findings; write more of it")
    if violations:
        return next(iter(violations.values())), None
    members = [record for record in every if finding_of(record) in findings]
    (finding,) = group_findings(members, is_everything=True)
    return next(record for record in members if record.violation.id == finding.example.id), finding
