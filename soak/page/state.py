"""What the page shows: one value, during a run and after it."""

from __future__ import annotations

import shlex

import msgspec

import soak
from soak.api.status import SoakStatus
from soak.daemon.recorder import ChartPoints
from soak.page.ended import ended
from soak.page.standing import Standing, conclude
from soak.report.outcome import RunOutcome

RECOVERIES_SHOWN_MAX = 60


class PageEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    verdict: str
    exit_code: int
    finished: bool
    """There is a verdict; otherwise it was interrupted."""
    at_wall_seconds: float
    """Until when it is known how it went."""
    lasted_seconds: float
    notes: list[str]
    data_dir: str
    commands: dict[str, str]
    """What to type to look at it again, by what it does."""


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """The events `state` and `end`: all that the page shows."""

    now_wall_seconds: float
    version: str = soak.__version__
    standing: Standing
    found_version: int
    """Grows with every violation, so that the page knows when to list them again."""
    why_no_faults: str = ""
    warnings: list[str] = []
    """What needs attention, and is not the doing of a fault."""
    verifier_silent: bool = False
    """What is shown of the verifier is its last answer."""
    points: ChartPoints
    soak: SoakStatus
    end: PageEnd | None = None
    """None while the run goes on."""


def final_state(
    last: SoakStatus,
    outcome: RunOutcome,
    points: ChartPoints,
    *,
    at_wall_seconds: float,
    found_version: int,
    where: str,
) -> PageState:
    """Return what the page shows of a run that is over.

    `at_wall_seconds` is when its last status was made; `where` names it to commands.
    """
    over, result = ended(last, outcome), outcome.result
    until = result.ended_wall_seconds if result is not None and result.finished else at_wall_seconds
    return PageState(
        now_wall_seconds=until,
        standing=conclude(over, outcome),
        found_version=found_version,
        warnings=over.warnings if not outcome.finished else [],
        points=points,
        soak=shown(over),
        end=PageEnd(
            verdict=outcome.verdict,
            exit_code=outcome.exit_code,
            finished=outcome.finished,
            at_wall_seconds=until,
            lasted_seconds=over.active_seconds,
            notes=outcome.notes,
            data_dir=outcome.data_dir,
            commands={
                "this page": f"soak page {where}",
                "a report": f"soak report {where} --format html > report.html",
                **({} if outcome.finished else {"go on": f"soak run --data-dir {shlex.quote(outcome.data_dir)}"}),
            },
        ),
    )


def shown(snapshot: SoakStatus) -> SoakStatus:
    """Leave out what the page does not show in full."""
    if snapshot.verifier is None:
        return snapshot
    recoveries = snapshot.verifier.recoveries[-RECOVERIES_SHOWN_MAX:]
    return msgspec.structs.replace(snapshot, verifier=msgspec.structs.replace(snapshot.verifier, recoveries=recoveries))


def warnings_of(snapshot: SoakStatus) -> list[str]:
    """Return what needs attention; a server that a fault has stopped is as it should be."""
    if snapshot.phase != "running":
        return list(snapshot.warnings)
    broken = {one.target for one in snapshot.faults_recent if one.state == "active"}
    servers = [one for one in snapshot.servers if not one.is_up]
    expected = {f"server {one.kind} is {one.state}" for one in servers if one.kind in broken}
    return [*snapshot.warnings, *(reason for reason in snapshot.not_ready if reason not in expected)]
