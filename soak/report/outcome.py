"""How a soak ended: the verifier's result if there is one, and what the daemon has to add to it."""

from __future__ import annotations

import msgspec

from soak.errors import ExitCode
from soak.verifier.result import Result

_EXIT_CODES = {
    "pass": ExitCode.PASS,
    "violation": ExitCode.VIOLATION,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, as the summary shows it and as `--json` prints it."""

    run: str
    verdict: str
    exit_code: int
    reasons: list[str]
    data_dir: str
    finished: bool
    """A verifier has given its verdict; otherwise the run can be resumed."""
    child_restarts: dict[str, int] = {}
    server_restarts: dict[str, int] = {}
    notes: list[str] = []
    result: Result | None = None


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
    return verdict, _EXIT_CODES[verdict], reasons
