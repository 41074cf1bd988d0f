"""The findings on record in a data folder: its violations, one entry for each bug."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from soak.errors import UsageError
from soak.report.recorded import Recorded, recorded
from soak.verifier.findings import FindingResult, ViolationGroups, finding_id
from soak.verifier.result import NewerResultError, Result, read_so_far

ID_CHARACTERS_MIN = 4


def finding_of(record: Recorded) -> str:
    """Return the id of the finding that a violation belongs to."""
    violation = record.violation
    return finding_id(violation.run, violation.store, violation.kind, violation.cause)


def group(records: Sequence[Recorded], *, is_everything: bool = False) -> list[FindingResult]:
    """Return violations as findings, run by run, the largest of a run first.

    Where the records are everything that a journal lists, and the verifier has counted more, its numbers count.
    """
    found: list[FindingResult] = []
    for folder, run in dict.fromkeys((record.folder, record.violation.run) for record in records):
        of_run = [record for record in records if (record.folder, record.violation.run) == (folder, run)]
        found += _of_run(of_run, _result_in(folder, run), is_everything=is_everything)
    return found


def _of_run(records: list[Recorded], result: Result | None, *, is_everything: bool) -> list[FindingResult]:
    acknowledged = {} if result is None else {one.store: one.acknowledged for one in result.by_store}
    groups = ViolationGroups.of((record.violation, record.state == "open") for record in records)
    derived = groups.listed(acknowledged)
    counted = {one.id: one for one in result.findings} if result is not None and is_everything else {}
    return [counted[one.id] if one.id in counted and counted[one.id].count > one.count else one for one in derived]


def _result_in(folder: Path, run: str) -> Result | None:
    try:
        result = read_so_far(folder)
    except NewerResultError:
        return None  # whoever asks for the result itself is told
    return result if result is not None and result.run == run else None


def resolve(data_dir: Path, identity: str) -> tuple[Recorded, FindingResult | None]:
    """Return the violation with this id, or a finding with its clearest example; the beginning of an id will do."""
    wanted = identity.strip().lower()
    if len(wanted) < ID_CHARACTERS_MIN:
        raise UsageError(f"{identity!r} is too short for the id of a violation; 'soak violations' lists them")
    every = recorded(data_dir).found
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
    (finding,) = group(members, is_everything=True)
    return next(record for record in members if record.violation.id == finding.example.id), finding
