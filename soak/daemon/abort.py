"""When to end a soak early: enough is known, or nothing more can be learnt."""

from __future__ import annotations

from typing import NamedTuple

from soak.api.status import SoakStatus
from soak.errors import ExitCode
from soak.settings import FaultSettings


class Abort(NamedTuple):
    """Why to end, and whether that alone makes the run inconclusive."""

    reason: str
    is_problem: bool
    failure: ExitCode = ExitCode.INCONCLUSIVE


def reason_to_abort(snapshot: SoakStatus, settings: FaultSettings) -> Abort | None:
    """Return why the soak should end now, if it should.

    Violations speak for themselves. A store that does not answer after a fault is no violation: what it remembers is
    not known, and a contract says nothing about when it must answer. Such a run is inconclusive. A store whose every
    call ends in the same programming error has to be mended first, like one that cannot be opened.
    """
    if snapshot.verifier is None:
        return None
    for line in snapshot.verifier.broken_stores:
        return Abort(line, is_problem=True, failure=ExitCode.USAGE)
    violations = snapshot.totals.violations
    most = settings.abort_after_violations
    if most is not None and violations >= most:
        return Abort(f"{violations} violations were found (faults.abort_after_violations = {most})", is_problem=False)
    longest = settings.recovery_max
    for one in snapshot.verifier.recovering:
        since = one.healed_seconds
        if longest is not None and one.planned and one.is_failing and since is not None and since > longest:
            what = " and ".join(f"{operation}s" for operation in one.awaits)
            reason = f"{one.store} answers no {what} {since:.0f}s after {one.kind} of {one.server} was healed"
            return Abort(f"{reason} (faults.recovery_max = {longest:g}s)", is_problem=True)
    return None
