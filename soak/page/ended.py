"""A run that is over, as its folder has it: the last status, brought up to what verifier and journal know.

The daemon saves its status every few seconds. A daemon that was killed leaves it a little behind the verifier's result
and the journal of violations, so the numbers of those count.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from soak.api.status import InjectedFault, SoakStatus
from soak.report.outcome import RunOutcome
from soak.verifier.result import FaultResult, Result, Totals, VerifierStatus, decode_file, write_document

FILE_NAME = "status.json"
SCHEMA = 1
"""Goes up when a reader of an older one could misunderstand a newer one."""
DONE = "done"
INTERRUPTED = "interrupted"
FAULTS_MAX = 200


class SavedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The file: what the page of a run showed last."""

    schema: int = SCHEMA
    at_wall_seconds: float
    status: SoakStatus


def save(folder: Path, status: SoakStatus, at_wall_seconds: float) -> None:
    """Replace the saved status in one step. Raises OSError."""
    write_document(
        folder / FILE_NAME, SavedStatus(at_wall_seconds=at_wall_seconds, status=status), is_last=status.phase == DONE
    )


def read_saved(folder: Path) -> SavedStatus | None:
    """Return what was saved; None if there is nothing, or it cannot be read. Raises `NewerResultError`."""
    return decode_file(folder / FILE_NAME, SavedStatus, SCHEMA)


def ended(last: SoakStatus, outcome: RunOutcome) -> SoakStatus:
    """Return the status of a run that is over: nothing in it is under way any more."""
    result, verifier = outcome.result, last.verifier
    if verifier is not None and result is not None:
        verifier = _settled(verifier, result)
    return msgspec.structs.replace(
        last,
        phase=DONE if outcome.finished else INTERRUPTED,
        verdict=outcome.verdict,
        remaining_seconds=None,
        children=[msgspec.structs.replace(one, state="ended", pid=None) for one in last.children],
        servers=[
            msgspec.structs.replace(one, state="ended" if one.embedded else one.state, pid=None) for one in last.servers
        ],
        faults_active=[],
        faults_recent=_faults(last.faults_recent, result.faults if result is not None else []),
        fault_next=None,
        not_ready=[],
        warnings=list(last.problems),
        verifier=verifier,
    )


def _settled(last: VerifierStatus, result: Result) -> VerifierStatus:
    # A verifier that was killed counts again what was lost with it: the larger numbers were true once.
    is_newer = result.finished or result.ended_wall_seconds >= last.at_wall_seconds
    totals = result.totals if is_newer else last.totals
    return msgspec.structs.replace(
        last,
        state="ended",
        at_wall_seconds=max(result.ended_wall_seconds, last.at_wall_seconds),
        totals=_with_all_found(totals, result),
        by_store=result.by_store if is_newer else last.by_store,
        violations_by=result.violations_by,
        findings=result.findings,
        store_errors=result.store_errors or last.store_errors,
        canaries=(result.canaries or []) if is_newer else last.canaries,
        recoveries=result.recoveries if is_newer else last.recoveries,
        tried=result.tried or last.tried,
        thresholds=result.thresholds if is_newer else last.thresholds,
        oldest_unverified_seconds=result.oldest_unverified_seconds if is_newer else last.oldest_unverified_seconds,
        suspicions_open=0 if result.finished else last.suspicions_open,
        recovering=[],
        faults_active=[],
        warnings=[],
    )


def _with_all_found(totals: Totals, result: Result) -> Totals:
    found = sum(one.count for one in result.findings)
    return msgspec.structs.replace(totals, violations=max(totals.violations, result.totals.violations, found))


def _faults(recent: list[InjectedFault], known: list[FaultResult]) -> list[InjectedFault]:
    """Return the faults of the whole run: those that the daemon did, and those that only the verifier knows."""
    done = {one.fault for one in recent}
    others = [_known_fault(one) for one in known if one.fault not in done]
    # One that was active when the daemon was killed is in both, and only the ledger has its name.
    unnamed = [one for one in recent if one.state != "active" or not _is_among(one, others)]
    every = sorted([*others, *unnamed], key=lambda one: one.began_wall_seconds)
    return [
        msgspec.structs.replace(one, state="cut off") if one.state == "active" else one for one in every[-FAULTS_MAX:]
    ]


def _is_among(fault: InjectedFault, others: list[InjectedFault]) -> bool:
    return any(
        (one.name, one.target) == (fault.name, fault.target)
        and abs(one.began_wall_seconds - fault.began_wall_seconds) < 1.0
        for one in others
    )


def _known_fault(fault: FaultResult) -> InjectedFault:
    until = fault.ended_wall_seconds
    return InjectedFault(
        name=fault.kind,
        target=fault.server,
        by="planned" if fault.planned else "unplanned",
        began_wall_seconds=fault.at_wall_seconds,
        hold_seconds=0.0,
        state="active" if until is None else "healed",
        fault=fault.fault,
        lasted_seconds=None if until is None else until - fault.at_wall_seconds,
        reason=fault.reason,
    )
